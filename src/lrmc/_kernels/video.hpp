// Pictures of bytes, and windows around their pixels: what the background and the masks of a video are made by.
#pragma once
#include <cstdint>
#include <vector>

namespace lrmc {

struct Picture {
  int height = 0, width = 0;
  int64_t size() const { return int64_t(height) * width; }
};

struct Clean {  // what is small goes, gaps are closed: `foreground.cleaned`
  int near = 0, gap = 0;
};

struct Distances {                  // how far frames are from what is behind them
  const uint8_t *frames = nullptr;  // count x height x width x colours, as `behind`
  const float *behind = nullptr;
  int64_t count = 0;
  Picture shape;
  int colours = 1;
  const float *mix = nullptr;  // colours x colours: differences times this have equal noise; none: the largest counts
  float light = 1;             // with `mix`: so many times a difference of brightness counts without the colours
};

struct Shadows {                   // numbers of `shadows.py`
  const uint8_t *frame = nullptr;  // height x width x colours, as `behind`
  const float *behind = nullptr;
  Picture shape;
  int colours = 1, size = 0;      // size: of the windows
  const double *edges = nullptr;  // of the bins of ratios
  int n_edges = 0;
  float noise = 0, candidates = 0, tint = 0;
  float alike = 0, texture = 0;     // of the evidence
  float taken = 0;                  // of what is left out
  const uint8_t *ratios = nullptr;  // of the 2 bins: what is left out

  int bins() const { return n_edges + 1; }
};

struct Masks {  // what is in front: `foreground.masks`
  Distances of;
  float threshold = 0;
  const uint8_t *sways = nullptr;  // of a pixel: a threshold of its own, if larger
  Clean clean;
  const Shadows *shadows = nullptr;  // none: nothing is left out
  uint8_t *out = nullptr;
};

struct Noted {                     // a frame, for `traits.py`
  const uint8_t *frame = nullptr;  // height x width x colours, as `behind`
  const float *behind = nullptr, *off = nullptr;
  const uint8_t *mask = nullptr;
  Picture shape;
  int colours = 1, room = 0;  // room: around a thing
  int64_t least = 0;          // pixels of a thing
  float threshold = 0;
  uint8_t *farthest = nullptr, *seen = nullptr;
  float *sums = nullptr, *squares = nullptr, *count = nullptr;
};

struct Pixels {  // frames less a background, value by value
  const uint8_t *frames = nullptr;
  const float *V = nullptr, *scores = nullptr;  // values x rank, frames x rank
  int64_t count = 0, n = 0;                     // frames, values of a frame
  int rank = 1;
};

struct Medians {  // of the columns of every so many rows, fewer than 256: the value with `before` others before it
  const uint8_t *rows = nullptr, *before = nullptr;
  int64_t count = 0, n = 0, step = 1;
  uint8_t *out = nullptr;
};

// One instruction set's copy of the code.
struct VideoKernels {
  void (*clean)(const uint8_t *found, int64_t count, Picture shape, Clean job, uint8_t *out);
  // Whether any pixel of a window is set, or all are: one picture, whose border is repeated.
  void (*any_in)(const uint8_t *mask, Picture shape, int size, uint8_t *out);
  void (*all_in)(const uint8_t *mask, Picture shape, int size, uint8_t *out);
  // Pixels that hang together, corners too, in no fewer than so many.
  void (*connected)(const uint8_t *mask, Picture shape, int64_t least, uint8_t *out);
  void (*distances)(const Distances &job, float *out);
  void (*masks)(const Masks &job);
  // Sums of the slopes by bin, 3 x (2 bins), of a frame; `mask` says where to look.
  void (*add_slopes)(const Shadows &job, const uint8_t *mask, double *sums);
  void (*note)(const Noted &job);
  // In how many frames the mean of a pixel's colours is nearer than `reach` to the background.
  void (*near_background)(const Pixels &job, int colours, float reach, int32_t *out);
  // The medians of the differences in parts of the frames, which end where `ends` says: parts x values.
  void (*part_medians)(const Pixels &job, const std::vector<int64_t> &ends, float *out);
  void (*medians)(const Medians &job);
  // A picture times a window in both directions, `weights` from its middle on; beyond its edges it is mirrored.
  void (*smooth)(const uint8_t *picture, Picture shape, const std::vector<float> &weights, float *out);
  // Sums over tiles of a picture that is the mean of two, height / tiles x width / tiles pixels each: with d and r how
  // it changes downwards and to the right, and e the second picture less the first, d d, d r, r r, d e, r e.
  void (*tile_sums)(const float *one, const float *other, Picture shape, int tiles, double *out);
};
namespace baseline {
extern const VideoKernels video;
}
namespace avx2 {
extern const VideoKernels video;
}
namespace avx512 {
extern const VideoKernels video;
}

}  // namespace lrmc
