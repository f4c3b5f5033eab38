// The hot loops of deepwishart, one posterior sample at a time, threads over samples.
//
// Each function does for a whole batch what the plain PyTorch code in _fused does, with the
// same formulas; derivations are given there. Working sample by sample keeps a P x N block in a
// core's own cache between the operations that touch it, which a batched operation cannot.

#include <torch/library.h>

#include "bartlett.h"
#include "factors.h"
#include "inducing.h"
#include "rows.h"

TORCH_LIBRARY(deepwishart, library) {
  library.def("condition_forward(Tensor H, Tensor K, Tensor w) -> (Tensor, Tensor, Tensor)",
              condition_forward);
  library.def(
      "condition_backward(Tensor H, Tensor K, Tensor w, Tensor A, Tensor gm, Tensor gs) -> "
      "(Tensor, Tensor, Tensor)",
      condition_backward);
  library.def(
      "gaussian_condition_forward(Tensor H, Tensor left, Tensor right, "
      "float log_height, float log_lengthscale, Tensor w) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
      gaussian_condition_forward);
  library.def(
      "gaussian_condition_backward(Tensor H, Tensor left, Tensor right, Tensor w, "
      "Tensor K, Tensor A, float log_lengthscale, Tensor gm, Tensor gs) -> "
      "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
      gaussian_condition_backward);
  library.def(
      "gaussian_square_forward(Tensor features, float log_height, float log_lengthscale, "
      "float jitter) -> (Tensor, Tensor)",
      gaussian_square_forward);
  library.def(
      "gaussian_square_backward(Tensor scaled, Tensor kernel, float log_lengthscale, Tensor grad) "
      "-> (Tensor, Tensor, Tensor)",
      gaussian_square_backward);
  library.def(
      "gaussian_sample_forward(Tensor form, Tensor solved, Tensor left, Tensor right, "
      "float log_height, float log_lengthscale, Tensor noise, float scale) -> "
      "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
      gaussian_sample_forward);
  library.def(
      "gaussian_sample_backward(Tensor form, Tensor solved, Tensor left, Tensor right, Tensor K, "
      "Tensor product, Tensor noise, Tensor deviation, float log_height, float log_lengthscale, "
      "float scale, Tensor grad) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
      gaussian_sample_backward);
  library.def(
      "draw_root_forward(Tensor K, Tensor V, float mixing, Tensor factor, float scale, "
      "float degrees, int groups) -> "
      "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, int)",
      draw_root_forward);
  library.def(
      "draw_root_backward(Tensor K, Tensor V, float mixing, Tensor factor, float scale, "
      "float degrees, Tensor H, Tensor R, Tensor w, Tensor form, Tensor solved, Tensor VV, "
      "Tensor? gH, Tensor? gF, Tensor? gw, Tensor? gd) -> (Tensor, Tensor, Tensor, Tensor)",
      draw_root_backward);
  library.def(
      "observe_forward(Tensor K, Tensor M, Tensor v, float scale) -> "
      "(Tensor, Tensor, Tensor, Tensor, Tensor, int)",
      observe_forward);
  library.def(
      "observe_backward(Tensor M, Tensor v, float scale, Tensor H, Tensor Y, Tensor w, Tensor KM, "
      "Tensor? gH, Tensor? gY, Tensor? gw, Tensor? gn) -> (Tensor, Tensor, Tensor)",
      observe_backward);
  library.def(
      "scored_factor_forward(Tensor gamma, Tensor concentration, Tensor rate, Tensor loc, "
      "Tensor scale, Tensor noise, float tilt) -> (Tensor, Tensor)",
      scored_factor_forward);
  library.def(
      "scored_factor_backward(Tensor gamma, Tensor concentration, Tensor rate, Tensor scale, "
      "Tensor noise, float tilt, Tensor grad, Tensor slope, Tensor weight) -> "
      "(Tensor, Tensor, Tensor, Tensor)",
      scored_factor_backward);
  library.def("triangular_inverse(Tensor lower) -> Tensor", triangular_inverse);
  library.def("cholesky(Tensor matrix) -> (Tensor, Tensor)", cholesky);
  library.def(
      "cholesky_backward(Tensor lower, Tensor inverse, Tensor? grad_lower, Tensor? grad_inverse) "
      "-> Tensor",
      cholesky_backward);
}
