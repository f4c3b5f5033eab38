// Pseudo-observations of a Gaussian; derivation in numerics/observe.py.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <tuple>

#include "factors.h"
#include "support.h"

namespace {

// Pseudo-observations M^T v of a Gaussian with covariance K: B = I + M^T K M = L L^T. Returns
// L^-1, Y = L^-1 M^T, w = Y v, log|B|, tr B^-1, |L^-T w|^2, K M for the gradient, and the number of
// samples that did not factorise.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> observe_forward(
    const Tensor& kernel, const Tensor& root, const Tensor& targets) {
  check_square(kernel, "the kernel matrix");
  const int64_t batch = kernel.size(0), size = kernel.size(1),
                width = last_size(targets, 2, "the targets");
  const int64_t all = size * size, narrow = size * width;
  check_shape(root, {size, size}, "the root");
  check_shape(targets, {size, width}, "the targets");
  Tensor inverse = at::empty_like(kernel), projection = at::empty_like(kernel),
         products = at::empty_like(kernel), whitened = like(kernel, {batch, size, width}),
         numbers = like(kernel, {batch, 3});
  Tensor failed = at::zeros({batch}, at::kInt);
  for_each_sample(kernel, [&]<typename T>(T, int64_t s) {
    Scratch<T> scratch(2 * all + narrow);
    T *inner = scratch.data(), *lower = inner + all, *back = lower + all;
    const T *M = from<T>(root), *v = from<T>(targets);
    T *H = into<T>(inverse, s), *Y = into<T>(projection, s), *X = into<T>(products, s);
    T *w = into<T>(whitened, s), *own = into<T>(numbers, s);
    gemm<T>(false, false, size, size, size, 1, from<T>(kernel, s), size, M, size, 0, X, size);
    gemm<T>(true, false, size, size, size, 1, M, size, X, size, 0, inner, size);
    for (int64_t i = 0; i < size; ++i) inner[i * size + i] += T(1);
    if (factorise(inner, lower, size) != 0) {
      failed.data_ptr<int32_t>()[s] = 1;
      return;
    }
    invert_lower(lower, H, size);
    gemm<T>(false, true, size, size, size, 1, H, size, M, size, 0, Y, size);
    gemm<T>(false, false, size, width, size, 1, Y, size, v, width, 0, w, width);
    gemm<T>(true, false, size, width, size, 1, H, size, w, width, 0, back, width);
    own[0] = T(2) * sum_log_diagonal(lower, size);
    own[1] = dot(H, H, all);
    own[2] = dot(back, back, narrow);
  });
  return {inverse, projection, whitened, numbers, products, failed};
}

// Gradients of K, M and v.
std::tuple<Tensor, Tensor, Tensor> observe_backward(
    const Tensor& root, const Tensor& targets, const Tensor& inverse,
    const Tensor& projection, const Tensor& whitened, const Tensor& products,
    const std::optional<Tensor>& grad_inverse, const std::optional<Tensor>& grad_projection,
    const std::optional<Tensor>& grad_whitened, const std::optional<Tensor>& grad_numbers) {
  check_square(inverse, "the inverse factor");
  const int64_t batch = inverse.size(0), size = inverse.size(1),
                width = last_size(targets, 2, "the targets");
  const int64_t all = size * size, narrow = size * width;
  check_shape(root, {size, size}, "the root");
  check_shape(targets, {size, width}, "the targets");
  for (const Tensor* t : {&projection, &products}) check_shape(*t, inverse.sizes(), "a product");
  check_shape(whitened, {batch, size, width}, "the whitened targets");
  for (const auto* t : {&grad_inverse, &grad_projection})
    check_shape(*t, inverse.sizes(), "a factor's gradient");
  check_shape(grad_whitened, {batch, size, width}, "the whitened targets' gradient");
  check_shape(grad_numbers, {batch, 3}, "the gradient of the three numbers");
  Tensor grad_kernel = at::empty_like(inverse), grad_root = at::empty_like(inverse),
         grad_targets = at::empty_like(whitened);
  for_each_sample(inverse, [&]<typename T>(T, int64_t s) {
    Scratch<T> scratch(5 * all + 2 * narrow);
    T *gH = scratch.data(), *gY = gH + all, *middle = gY + all, *gB = middle + all;
    T *work = gB + all, *back = work + all, *gw = back + narrow, *gM = into<T>(grad_root, s);
    const auto start = [s](const std::optional<Tensor>& given, T* to, int64_t count) {
      given ? std::copy_n(from<T>(*given, s), count, to) : std::fill_n(to, count, T(0));
    };
    const T *H = from<T>(inverse, s), *Y = from<T>(projection, s), *w = from<T>(whitened, s);
    const T *M = from<T>(root), *v = from<T>(targets);
    T numbers[3];
    start(grad_numbers, numbers, 3);
    start(grad_inverse, gH, all);
    start(grad_projection, gY, all);
    start(grad_whitened, gw, narrow);
    const T twice = T(2) * numbers[2];
    gemm<T>(true, false, size, width, size, 1, H, size, w, width, 0, back, width);
    gemm<T>(false, false, size, width, size, twice, H, size, back, width, 1, gw, width);
    gemm<T>(false, true, size, size, width, twice, w, width, back, width, 1, gH, size);
    for (int64_t i = 0; i < all; ++i) gH[i] += T(2) * numbers[1] * H[i];
    gemm<T>(false, true, size, size, width, 1, gw, width, v, width, 1, gY, size);
    gemm<T>(true, false, size, width, size, 1, Y, size, gw, width, 0, into<T>(grad_targets, s), width);
    gemm<T>(false, false, size, size, size, 1, gY, size, M, size, 1, gH, size);
    lower_products<T>(false, gH, H, -1, 0, middle, size);
    for (int64_t i = 0; i < size; ++i) middle[i * size + i] += T(2) * numbers[0];
    halve_and_mirror(middle, size);
    sandwich(H, middle, work, gB, size);
    gemm<T>(true, false, size, size, size, 1, gY, size, H, size, 0, gM, size);
    gemm<T>(false, false, size, size, size, 2, from<T>(products, s), size, gB, size, 1, gM, size);
    gemm<T>(false, false, size, size, size, 1, M, size, gB, size, 0, work, size);
    gemm<T>(false, true, size, size, size, 1, work, size, M, size, 0, into<T>(grad_kernel, s), size);
  });
  return {grad_kernel, sum_samples(grad_root), sum_samples(grad_targets)};
}

}  // namespace
