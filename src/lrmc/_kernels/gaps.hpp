// What gaps.cpp offers to the table of one instruction set.
#pragma once
#include "kernels.hpp"

namespace lrmc::LRMC_ISA {

void gaps(const Gaps &job);
void normal(const Normal &job);

}  // namespace lrmc::LRMC_ISA
