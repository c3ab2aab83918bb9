// What masks.cpp and shadows.cpp offer to each other and to the table of one instruction set.
#pragma once
#include "video.hpp"

namespace lrmc::LRMC_ISA {

struct Box {
  int top = 0, left = 0, height = 0, width = 0;
};

// The box of all that is set between two columns; no height if nothing is.
Box bounds(const uint8_t *mask, Picture shape, int first, int last);
void clean(const uint8_t *found, int64_t count, Picture shape, Clean job, uint8_t *out);
void any_in(const uint8_t *mask, Picture shape, int size, uint8_t *out);
void all_in(const uint8_t *mask, Picture shape, int size, uint8_t *out);
void connected(const uint8_t *mask, Picture shape, int64_t least, uint8_t *out);
void distances(const Distances &job, float *out);
void masks(const Masks &job);
void note(const Noted &job);

void add_slopes(const Shadows &job, const uint8_t *mask, double *sums);
// `left` loses what is shadow or light; `far` is what is far, `mask` where to look.
void leave_out(const Shadows &job, const uint8_t *far, const uint8_t *mask, uint8_t *left);

}  // namespace lrmc::LRMC_ISA
