// What refit.cpp offers to the table of one instruction set.
#pragma once
#include "kernels.hpp"

namespace lrmc::LRMC_ISA {

extern const Kernels kernels;
template <class T, class Data> Refitted refit(const Data &data, const Refit<T> &job);

}  // namespace lrmc::LRMC_ISA
