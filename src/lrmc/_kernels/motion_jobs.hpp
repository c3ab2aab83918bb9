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
// Pictures times a window in both directions; beyond their edges, they go on as there.
struct Windowed {
  const float *pictures = nullptr;  // count x height x width
  int64_t count = 0;
  int height = 0, width = 0, reach = 0;
  const float *window = nullptr;  // 2 reach + 1
  float *out = nullptr;
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
