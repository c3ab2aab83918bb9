// What rows.cpp offers to the table of one instruction set.
#pragma once
#include "kernels.hpp"

namespace lrmc::LRMC_ISA {

template <class T> void solve_rows(const RowSystems<T> &job);
template <class T> void step_rows(const RowStep<T> &job);
template <class T> void slope_rows(const RowStep<T> &job, const RowSlopes<T> &out);
template <class T> void regressors(const Regressors<T> &job);
template <class T> void regressor_slopes(const Regressors<T> &job, const RegressorSlopes<T> &out);
template <class T> void entries_at(const Places<T> &job);

}  // namespace lrmc::LRMC_ISA
