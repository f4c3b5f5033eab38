// Loops over the rows and columns of one sample, written so that the compiler vectorises them.

#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace {

// 1 / n!
template <typename T>
constexpr std::array<T, 14> inverse_factorials() {
  std::array<T, 14> found{};
  double factorial = 1.0;
  for (int n = 0; n < 14; factorial *= ++n) found[n] = static_cast<T>(1.0 / factorial);
  return found;
}

// exp(x) for x far below overflow: 2^k * exp(r), |r| <= log(2)/2, by a Taylor polynomial. Branch-free
// so that the compiler vectorises it; below one unit in the last place of error beyond rounding.
template <typename T>
inline T fast_exp(T x) {
  constexpr bool wide = sizeof(T) == 8;
  using Bits = std::conditional_t<wide, int64_t, int32_t>;
  constexpr int degree = wide ? 13 : 7, mantissa = wide ? 52 : 23, bias = wide ? 1023 : 127;
  constexpr T least = wide ? -708 : -87, shifter = T(wide ? 0x1.8p52 : 0x1.8p23);
  // log(2) in two parts, of which the first times k is exact.
  constexpr T high = T(wide ? 0x1.62e42fefa0000p-1 : 0x1.62e400p-1);
  constexpr T low = T(wide ? 0x1.cf79abc9e3b3ap-40 : 0x1.7f7d1cp-20);
  constexpr auto coefficients = inverse_factorials<T>();
  const T bounded = x < least ? least : x;
  const T shifted = bounded * T(1.4426950408889634074) + shifter;
  const T k = shifted - shifter;
  const T r = bounded - k * high - k * low;
  T p = coefficients[degree];
#pragma GCC unroll 16
  for (int n = degree - 1; n >= 0; --n) p = p * r + coefficients[n];
  Bits bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits + bias) << mantissa;  // the low bits of the shifted number are k
  T power;
  std::memcpy(&power, &bits, sizeof power);
  return x < least ? T(0) : p * power;
}

// products_ij -> exp(min(products_ij - a_i - b_j, 0) + log_height), in place.
template <typename T>
void gaussian_in_place(T* __restrict products, const T* __restrict a, const T* __restrict b,
                       T log_height, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i) {
    T* __restrict row = products + i * columns;
    const T own = a[i];
    for (int64_t j = 0; j < columns; ++j) {
      const T exponent = row[j] - own - b[j];
      // Written so that a NaN stays a NaN.
      row[j] = fast_exp((exponent > T(0) ? T(0) : exponent) + log_height);
    }
  }
}

// sums_j = sum_i a_ij b_ij
template <typename T>
void column_dots(const T* a, const T* b, T* __restrict sums, int64_t rows, int64_t columns) {
  std::fill(sums, sums + columns, T(0));
  for (int64_t i = 0; i < rows; ++i) {
    const T *x = a + i * columns, *y = b + i * columns;
    for (int64_t j = 0; j < columns; ++j) sums[j] += x[j] * y[j];
  }
}

// out = factor * block * diag(scale)
template <typename T>
void scale_columns(const T* __restrict block, const T* __restrict scale, T factor,
                   T* __restrict out, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      out[i * columns + j] = factor * block[i * columns + j] * scale[j];
}

// Some rows at a time: what is written side by side is written together.
template <typename T>
void transpose_into(const T* __restrict block, T* __restrict out, int64_t rows, int64_t columns) {
  constexpr int64_t strip = 16;
  for (int64_t begin = 0; begin < rows; begin += strip) {
    const int64_t end = std::min(begin + strip, rows);
    for (int64_t j = 0; j < columns; ++j)
      for (int64_t i = begin; i < end; ++i) out[j * rows + i] = block[i * columns + j];
  }
}

// gradient *= block in place, with its row and column sums.
template <typename T>
void multiply_and_sum(T* __restrict gradient, const T* __restrict block, T* __restrict row_sums,
                      T* __restrict column_sums, int64_t rows, int64_t columns) {
  std::fill(column_sums, column_sums + columns, T(0));
  for (int64_t i = 0; i < rows; ++i) {
    T* __restrict g = gradient + i * columns;
    const T* __restrict k = block + i * columns;
    T total = 0;
#pragma omp simd reduction(+ : total)
    for (int64_t j = 0; j < columns; ++j) {
      const T value = g[j] * k[j];
      g[j] = value;
      column_sums[j] += value;
      total += value;
    }
    row_sums[i] = total;
  }
}

// out = (rows - centre) * factor, with half of its rows' squared norms
template <typename T>
void centre_and_scale(const T* __restrict rows, const T* __restrict centre, T factor,
                      T* __restrict out, T* __restrict norms, int64_t count, int64_t width) {
  for (int64_t i = 0; i < count; ++i) {
    T total = 0;
    for (int64_t k = 0; k < width; ++k) {
      const T value = (rows[i * width + k] - centre[k]) * factor;
      out[i * width + k] = value;
      total += value * value;
    }
    norms[i] = T(0.5) * total;
  }
}

template <typename T>
void mean_row(const T* __restrict rows, T* __restrict mean, int64_t count, int64_t width) {
  std::fill(mean, mean + width, T(0));
  for (int64_t i = 0; i < count; ++i)
    for (int64_t k = 0; k < width; ++k) mean[k] += rows[i * width + k];
  for (int64_t k = 0; k < width; ++k) mean[k] /= static_cast<T>(count);
}

// out_ik = (out_ik - sums_i * rows_ik) * factor, returning the sum of what it was before the factor
// times rows_ik.
template <typename T>
T subtract_and_scale(T* __restrict out, const T* __restrict sums, const T* __restrict rows, T factor,
                     int64_t count, int64_t width) {
  T total = 0;
  for (int64_t i = 0; i < count; ++i)
    for (int64_t k = 0; k < width; ++k) {
      const int64_t at = i * width + k;
      const T value = out[at] - sums[i] * rows[at];
      total += value * rows[at];
      out[at] = value * factor;
    }
  return total;
}

}  // namespace
