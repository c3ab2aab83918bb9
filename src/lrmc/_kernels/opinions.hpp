// What opinions.cpp and tails.cpp offer to the table of one instruction set.
#pragma once
#include "kernels.hpp"

namespace lrmc::LRMC_ISA {

void nearest(const Nearest &job);
void opinions(const Opinions &job);
void tails(TailsJob &job);

}  // namespace lrmc::LRMC_ISA
