// What motion.cpp offers to the table of one instruction set.
#pragma once
#include "kernels.hpp"

namespace lrmc::LRMC_ISA {

void follow(const Follow &job);
void onto_canvas(const Resample &job);
void from_canvas(const Resample &job);
void shrink(const Shrink &job);
void noise_levels(const NoiseLevels &job);
void lasting(const Lasting &job);
void patches(const Patches &job);

}  // namespace lrmc::LRMC_ISA
