// Loops over the rows and columns of one sample, written so that the compiler vectorises them.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace {

// exp(x) for x far below overflow: 2^k * exp(r), |r| <= log(2)/2, by a Taylor polynomial. Branch-free
// so that the compiler vectorises it; below one unit in the last place of error beyond rounding.
inline double fast_exp(double x) {
  constexpr double shifter = 0x1.8p52;
  const double bounded = x < -708.0 ? -708.0 : x;
  const double shifted = bounded * 1.4426950408889634074 + shifter;
  const double k = shifted - shifter;
  double r = bounded - k * 0x1.62e42fefa0000p-1;
  r -= k * 0x1.cf79abc9e3b3ap-40;
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  int64_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits + 1023) << 52;  // the low bits of the shifted number are k
  double power;
  std::memcpy(&power, &bits, sizeof power);
  return x < -708.0 ? 0.0 : p * power;
}

inline float fast_exp(float x) {
  constexpr float shifter = 0x1.8p23f;
  const float bounded = x < -87.0f ? -87.0f : x;
  const float shifted = bounded * 1.44269504f + shifter;
  const float k = shifted - shifter;
  float r = bounded - k * 0x1.62e400p-1f;
  r -= k * 0x1.7f7d1cp-20f;
  float p = 1.0f / 5040.0f;
  p = p * r + 1.0f / 720.0f;
  p = p * r + 1.0f / 120.0f;
  p = p * r + 1.0f / 24.0f;
  p = p * r + 1.0f / 6.0f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  int32_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits + 127) << 23;
  float power;
  std::memcpy(&power, &bits, sizeof power);
  return x < -87.0f ? 0.0f : p * power;
}

template <typename T>
void half_squared_norms(const T* __restrict rows, T* __restrict norms, int64_t count,
                        int64_t width) {
  for (int64_t i = 0; i < count; ++i) {
    T total = 0;
    for (int64_t k = 0; k < width; ++k) total += rows[i * width + k] * rows[i * width + k];
    norms[i] = T(0.5) * total;
  }
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

// out_ik -= sums_i * rows_ik
template <typename T>
void subtract_scaled_rows(T* __restrict out, const T* __restrict sums, const T* __restrict rows,
                          int64_t count, int64_t width) {
  for (int64_t i = 0; i < count; ++i)
    for (int64_t k = 0; k < width; ++k) out[i * width + k] -= sums[i] * rows[i * width + k];
}

// out = (rows - centre) * factor
template <typename T>
void centre_and_scale(const T* __restrict rows, const T* __restrict centre, T factor,
                      T* __restrict out, int64_t count, int64_t width) {
  for (int64_t i = 0; i < count; ++i)
    for (int64_t k = 0; k < width; ++k)
      out[i * width + k] = (rows[i * width + k] - centre[k]) * factor;
}

template <typename T>
void mean_row(const T* __restrict rows, T* __restrict mean, int64_t count, int64_t width) {
  std::fill(mean, mean + width, T(0));
  for (int64_t i = 0; i < count; ++i)
    for (int64_t k = 0; k < width; ++k) mean[k] += rows[i * width + k];
  for (int64_t k = 0; k < width; ++k) mean[k] /= static_cast<T>(count);
}

// values *= factor, returning the sum of values * other taken before.
template <typename T>
T scale_and_dot(T* __restrict values, const T* __restrict other, T factor, int64_t count) {
  T total = 0;
#pragma omp simd reduction(+ : total)
  for (int64_t i = 0; i < count; ++i) {
    total += values[i] * other[i];
    values[i] *= factor;
  }
  return total;
}

}  // namespace
