// What small.cpp offers to the table of one instruction set.
#pragma once
#include "kernels.hpp"

namespace lrmc::LRMC_ISA {

void small(const SmallJob &job);

}  // namespace lrmc::LRMC_ISA
