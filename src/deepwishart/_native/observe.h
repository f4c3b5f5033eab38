// Pseudo-observations of a Gaussian; derivation in operations/observe.py.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <tuple>

#include "factors.h"
#include "support.h"

namespace {

// Pseudo-observations M^T v of a Gaussian with covariance s K: B = I + s M^T K M = L L^T. Returns
// L^-1, Y = L^-1 M^T, w = Y v, log|B|, tr B^-1, |L^-T w|^2, K M for the gradient, and the number of
// samples that did not factorise.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> observe_forward(
    const Tensor& kernel, const Tensor& root, const Tensor& targets, double scale) {
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
  for_each_sample(batch, [&](int64_t s) {
    AT_DISPATCH_FLOATING_TYPES(kernel.scalar_type(), "observe", [&] {
      Scratch<scalar_t> scratch(2 * all + narrow);
      scalar_t *inner = scratch.data(), *lower = inner + all, *back = lower + all;
      const scalar_t* M = root.const_data_ptr<scalar_t>();
      scalar_t* H = inverse.data_ptr<scalar_t>() + s * all;
      scalar_t* Y = projection.data_ptr<scalar_t>() + s * all;
      scalar_t* X = products.data_ptr<scalar_t>() + s * all;
      scalar_t* w = whitened.data_ptr<scalar_t>() + s * narrow;
      scalar_t* own = numbers.data_ptr<scalar_t>() + s * 3;
      gemm<scalar_t>(false, false, size, size, size, 1,
                     kernel.const_data_ptr<scalar_t>() + s * all, size, M, size, 0, X, size);
      gemm<scalar_t>(true, false, size, size, size, static_cast<scalar_t>(scale), M, size, X, size,
                     0, inner, size);
      for (int64_t i = 0; i < size; ++i) inner[i * size + i] += scalar_t(1);
      if (factorise(inner, lower, size) != 0) {
        failed.data_ptr<int32_t>()[s] = 1;
        return;
      }
      invert_lower(lower, H, size);
      gemm<scalar_t>(false, true, size, size, size, 1, H, size, M, size, 0, Y, size);
      gemm<scalar_t>(false, false, size, width, size, 1, Y, size,
                     targets.const_data_ptr<scalar_t>(), width, 0, w, width);
      gemm<scalar_t>(true, false, size, width, size, 1, H, size, w, width, 0, back, width);
      own[0] = scalar_t(2) * sum_log_diagonal(lower, size);
      own[1] = dot(H, H, all);
      own[2] = dot(back, back, narrow);
    });
  });
  return {inverse, projection, whitened, numbers, products, failed};
}

// Gradients of K, M and v.
std::tuple<Tensor, Tensor, Tensor> observe_backward(
    const Tensor& root, const Tensor& targets, double scale, const Tensor& inverse,
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
  for_each_sample(batch, [&](int64_t s) {
    AT_DISPATCH_FLOATING_TYPES(inverse.scalar_type(), "observe_backward", [&] {
      Scratch<scalar_t> scratch(5 * all + 2 * narrow);
      scalar_t *gH = scratch.data(), *gY = gH + all, *middle = gY + all, *gB = middle + all;
      scalar_t *work = gB + all, *back = work + all, *gw = back + narrow;
      const auto own = [s](const Tensor& tensor, int64_t count) {
        return tensor.const_data_ptr<scalar_t>() + s * count;
      };
      const auto start = [s](const std::optional<Tensor>& from, scalar_t* to, int64_t count) {
        if (from)
          std::copy_n(from->const_data_ptr<scalar_t>() + s * count, count, to);
        else
          std::fill_n(to, count, scalar_t(0));
      };
      const scalar_t *H = own(inverse, all), *Y = own(projection, all), *w = own(whitened, narrow);
      const scalar_t* M = root.const_data_ptr<scalar_t>();
      scalar_t numbers[3] = {0, 0, 0};
      if (grad_numbers) std::copy_n(own(*grad_numbers, 3), 3, numbers);
      const scalar_t twice = scalar_t(2) * numbers[2], factor = static_cast<scalar_t>(scale);
      start(grad_inverse, gH, all);
      start(grad_projection, gY, all);
      start(grad_whitened, gw, narrow);
      gemm<scalar_t>(true, false, size, width, size, 1, H, size, w, width, 0, back, width);
      gemm<scalar_t>(false, false, size, width, size, twice, H, size, back, width, 1, gw, width);
      gemm<scalar_t>(false, true, size, size, width, twice, w, width, back, width, 1, gH, size);
      for (int64_t i = 0; i < all; ++i) gH[i] += scalar_t(2) * numbers[1] * H[i];
      gemm<scalar_t>(false, true, size, size, width, 1, gw, width,
                     targets.const_data_ptr<scalar_t>(), width, 1, gY, size);
      gemm<scalar_t>(true, false, size, width, size, 1, Y, size, gw, width, 0,
                     grad_targets.data_ptr<scalar_t>() + s * narrow, width);
      gemm<scalar_t>(false, false, size, size, size, 1, gY, size, M, size, 1, gH, size);
      lower_products<scalar_t>(false, gH, H, -1, 0, middle, size);
      for (int64_t i = 0; i < size; ++i) middle[i * size + i] += scalar_t(2) * numbers[0];
      halve_and_mirror(middle, size);
      sandwich(H, middle, work, gB, size);
      scalar_t* gM = grad_root.data_ptr<scalar_t>() + s * all;
      gemm<scalar_t>(true, false, size, size, size, 1, gY, size, H, size, 0, gM, size);
      gemm<scalar_t>(false, false, size, size, size, 2 * factor, own(products, all), size, gB, size,
                     1, gM, size);
      gemm<scalar_t>(false, false, size, size, size, factor, M, size, gB, size, 0, work, size);
      gemm<scalar_t>(false, true, size, size, size, 1, work, size, M, size, 0,
                     grad_kernel.data_ptr<scalar_t>() + s * all, size);
    });
  });
  return {grad_kernel, sum_samples(grad_root), sum_samples(grad_targets)};
}

}  // namespace
