// Pictures of bytes, and windows around their pixels: what the masks of a video are made by.
#pragma once
#include <cstdint>
#include <vector>

namespace lrmc {

struct Majority {  // what is small goes, gaps are closed: `foreground.cleaned`
  const uint8_t *found = nullptr;
  uint8_t *out = nullptr;
  int64_t count = 0;
  int height = 0, width = 0, near = 0, gap = 0;
};
void clean(const Majority &job);

// Whether any pixel of a window is set, or all are: one picture, whose border is repeated.
void any_in_window(const uint8_t *mask, int height, int width, int size, uint8_t *out);
void all_in_window(const uint8_t *mask, int height, int width, int size, uint8_t *out);

// Pixels that hang together, corners too, in no fewer than so many.
void connected(const uint8_t *mask, int height, int width, int64_t least, uint8_t *out);

// Whether any pixel of each cell is set: cells are squares side by side, the last ones may be cut off.
void in_cells(const uint8_t *mask, int height, int width, int cell, uint8_t *out);

struct Box {
  int top = 0, left = 0, height = 0, width = 0;
};

struct Shadows {                   // numbers of `shadows.py`
  const uint8_t *frame = nullptr;  // height x width x colours, as `behind`
  const float *behind = nullptr;
  int height = 0, width = 0, colours = 1, size = 0;  // size: of the windows
  const double *edges = nullptr;                     // of the bins of ratios
  int n_edges = 0;
  float noise = 0, candidates = 0, tint = 0;
  float alike = 0, texture = 0;  // of the evidence
  float taken = 0;               // of what is left out

  int bins() const { return n_edges + 1; }
};

// Sums of the slopes by bin, 3 x (2 bins), of a box of a frame; `mask` says where to look.
void add_slopes(const Shadows &job, Box box, const uint8_t *mask, double *sums);
// `left` loses what is shadow or light in a box; `far` is of the frame, `ratios` of the 2 bins.
void leave_out(const Shadows &job, Box box, const uint8_t *far, const uint8_t *ratios, uint8_t *left);

struct Pixels {  // frames less a background, value by value
  const uint8_t *frames = nullptr;
  const float *V = nullptr, *scores = nullptr;  // values x rank, frames x rank
  int64_t count = 0, n = 0;                     // frames, values of a frame
  int rank = 1;
};
// In how many frames the mean of a pixel's colours is nearer than `reach` to the background.
void near_background(const Pixels &job, int colours, float reach, int32_t *out);
// The medians of the differences in parts of the frames, which end where `ends` says: parts x values.
void part_medians(const Pixels &job, const std::vector<int64_t> &ends, float *out);

// Sums over tiles of a picture that is the mean of two, height / tiles x width / tiles pixels each: with d and r how
// it changes downwards and to the right, and e the second picture less the first, d d, d r, r r, d e, r e.
void tile_sums(const float *one, const float *other, int height, int width, int tiles, double *out);

}  // namespace lrmc
