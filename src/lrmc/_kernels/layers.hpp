// What layers.cpp offers to the table of one instruction set.
#pragma once
#include "kernels.hpp"

namespace lrmc::LRMC_ISA {

template <class T> void layers(const Layers<T> &job);

}  // namespace lrmc::LRMC_ISA
