// What the kernels that move and fit pictures are asked to do.
#pragma once
#include <cstdint>

namespace lrmc {

// Frames of a cine brought into register with a reference: see motion.cpp. All in single precision.
struct Level {                                           // one size of the pictures that are compared
  int height = 0, width = 0, rows = 0, columns = 0;      // of the picture and of its grid
  const float *reference = nullptr, *free = nullptr;     // height x width: what it should look like; 0 where that says
                                                         // nothing
  const float *smooth_y = nullptr, *smooth_x = nullptr;  // rows x rows, columns x columns: the windows
};
struct Follow {
  const float *frames = nullptr;  // count x height x width
  int64_t count = 0;
  int height = 0, width = 0;
  int halved = 0;                 // how often, before they are compared
  const Level *levels = nullptr;  // the finest first
  int n_levels = 0;
  int block = 8;
  int rounds = 0;     // steps at each level, at most ...
  float settled = 0;  // ... until they are shorter than this, in pixels of that level, root mean square
  float rejection = 0, grey = 0, ridge = 0, longest = 0;
  float *down = nullptr, *right = nullptr;  // count x rows x columns, of the finest level
  int threads = 1;
};
struct Resample {
  const float *pictures = nullptr;  // count frames, or as many canvases
  int64_t count = 0;
  int height = 0, width = 0, margin = 0;          // of a frame; how far the canvas reaches beyond it
  int rows = 0, columns = 0, block = 8;           // of the grid
  const float *down = nullptr, *right = nullptr;  // count x rows x columns
  const float *hidden = nullptr;                  // height x width, or missing: 1 where a frame shows nothing
  float *out = nullptr;
  uint8_t *seen = nullptr;  // as large as canvases, or missing: whether a frame shows the place
  int threads = 1;
};
// What of the residuals of a cine is blood: see blood.cpp. All are count x height x width.
struct Window {                    // of a Gaussian, say
  const float *weights = nullptr;  // 2 reach + 1
  int reach = 0;
};
struct Shrink {
  const float *rest = nullptr;
  int64_t count = 0;
  int height = 0, width = 0;
  float sign = 1;     // what residuals are multiplied with: -1, and what is dark is looked for
  bool both = false;  // whether blood may be dark or bright
  float beyond = 0;   // less is not blood
  float allowed = 0;  // so much may be shared by a wide neighbourhood
  float level = 0;    // of the noise
  Window near, common;
  float *out = nullptr;
  int threads = 1;
};
struct NoiseLevels {
  const float *rest = nullptr, *tissue = nullptr;
  int64_t count = 0;
  int height = 0, width = 0;
  float least = 0;           // changes that tell nothing
  double *report = nullptr;  // count x 4: how many are darker than tissue, the sum of their squares, how many change,
                             // and the sum of the tissue there
  int threads = 1;
};
struct Lasting {
  const float *blood = nullptr;
  int64_t count = 0;
  int height = 0, width = 0;
  int64_t brightest = 0;                       // frames of each pixel that are left out
  float *power = nullptr, *lasting = nullptr;  // height x width: mean squares, of all frames and without these
  int threads = 1;
};

// The tissue of patches of a cine, rank 1, and how it looks blended: see patches.cpp.
struct PatchReport {    // one double each
  double lively = 0;    // pixels that change
  double observed = 0;  // entries of these
  double fitted = 0;    // whether there were enough
  double rounds = 0, moved = 0, noise = 0;
};
struct Patches {
  const float *frames = nullptr;  // count x height x width
  const uint8_t *seen = nullptr;  // the same; 0 where a frame says nothing
  int count = 0, height = 0, width = 0;
  const int64_t *places = nullptr;  // n x 4: top, left, height, width
  int64_t n = 0;
  float least = 0;              // pixels that change by no more are what they are
  bool both = false;            // whether outliers are dark, too
  int told_by = 0, rounds = 0;  // frames that tell what is usual, and sweeps, at most
  double settled = 0;           // by which the last sweep changes the tissue
  int overlap = 0;              // pixels over which weights rise
  float *model = nullptr;       // count x height x width
  PatchReport *report = nullptr;
  int threads = 1;
};

}  // namespace lrmc
