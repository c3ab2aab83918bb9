// What the files that bind kernels to Python share.
#pragma once
#include "arguments.hpp"

namespace lrmc {

// Arrays and rules must come as they are. nanobind would otherwise convert an array of another type or order into a
// copy: an answer written there is lost.
inline auto as_it_is(const char *name) { return nanobind::arg(name).noconvert(); }
inline auto as_it_is_or_none(const char *name) { return nanobind::arg(name).noconvert().none() = nanobind::none(); }

const Kernels &in_use();  // those of the instruction set that was chosen

void bind_loop(nanobind::module_ &m);
void bind_small(nanobind::module_ &m);
void bind_noisy(nanobind::module_ &m);
void bind_motion(nanobind::module_ &m);
void bind_video(nanobind::module_ &m);
void bind_time(nanobind::module_ &m);

}  // namespace lrmc
