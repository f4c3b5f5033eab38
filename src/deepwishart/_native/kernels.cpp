// The hot loops of deepwishart, one posterior sample at a time, threads over samples.
//
// Each function does for a whole batch what the plain path in operations/ does, with the derivation
// given there. Working sample by sample keeps a P x N block in a core's own cache between the
// operations that touch it, which a batched operation cannot.

#include <torch/library.h>

#include "bartlett.h"
#include "collapsed.h"
#include "factors.h"
#include "observe.h"
#include "rows.h"
#include "wishart.h"

TORCH_LIBRARY(deepwishart, library) {
  library.def(
      "condition_forward(Tensor H, Tensor K, Tensor w) -> (Tensor, Tensor, Tensor)");
  library.def(
      "condition_backward(Tensor H, Tensor K, Tensor w, Tensor A, Tensor gm, Tensor gs) -> "
      "(Tensor, Tensor, Tensor)");
  library.def(
      "gaussian_condition_forward(Tensor H, Tensor left, Tensor right, Tensor log_height, "
      "Tensor log_lengthscale, Tensor w) -> (Tensor, Tensor, Tensor, Tensor, Tensor, "
      "Tensor)");
  library.def(
      "gaussian_condition_backward(Tensor H, Tensor a, Tensor b, Tensor w, Tensor K, Tensor "
      "A, Tensor log_lengthscale, Tensor gm, Tensor gs) -> (Tensor, Tensor, Tensor, Tensor, "
      "Tensor, Tensor)");
  library.def(
      "gaussian_square_forward(Tensor features, Tensor log_height, Tensor log_lengthscale, "
      "float jitter) -> (Tensor, Tensor)");
  library.def(
      "gaussian_square_backward(Tensor scaled, Tensor kernel, Tensor log_lengthscale, "
      "Tensor grad) -> (Tensor, Tensor, Tensor)");
  library.def(
      "gaussian_sample_forward(Tensor form, Tensor solved, Tensor left, Tensor right, "
      "Tensor log_height, Tensor log_lengthscale, Tensor epsilon) -> (Tensor, Tensor, "
      "Tensor, Tensor, Tensor, Tensor)");
  library.def(
      "gaussian_sample_backward(Tensor form, Tensor solved, Tensor a, Tensor b, Tensor K, "
      "Tensor product, Tensor epsilon, Tensor deviation, Tensor log_height, Tensor "
      "log_lengthscale, Tensor grad) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)");
  library.def(
      "wishart_draw_forward(Tensor prior, Tensor posterior, Tensor gamma, Tensor "
      "concentration, Tensor rate, Tensor loc, Tensor deviation, Tensor epsilon, Tensor? "
      "row_mixing, Tensor? column_mixing, float degrees) -> (Tensor, Tensor, Tensor, "
      "Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)");
  library.def(
      "wishart_draw_backward(Tensor gamma, Tensor concentration, Tensor rate, Tensor "
      "deviation, Tensor epsilon, Tensor? row_mixing, Tensor? column_mixing, float degrees, "
      "bool sticking, Tensor H, Tensor w, Tensor form, Tensor solved, Tensor bartlett, "
      "Tensor factor, Tensor R, Tensor gF, Tensor gd, Tensor? gH, Tensor? gw) -> (Tensor, "
      "Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)");
  library.def(
      "observe_forward(Tensor K, Tensor M, Tensor v, float scale) -> (Tensor, Tensor, "
      "Tensor, Tensor, Tensor, Tensor)");
  library.def(
      "observe_backward(Tensor M, Tensor v, float scale, Tensor H, Tensor Y, Tensor w, "
      "Tensor KM, Tensor? gH, Tensor? gY, Tensor? gw, Tensor? gn) -> (Tensor, Tensor, "
      "Tensor)");
  library.def(
      "row_sums_forward(Tensor H, Tensor K, Tensor y) -> (Tensor, Tensor, Tensor)");
  library.def(
      "row_sums_backward(Tensor H, Tensor A, Tensor y, Tensor T, Tensor c, Tensor gT, "
      "Tensor gc) -> (Tensor, Tensor)");
  library.def(
      "gaussian_row_sums_forward(Tensor H, Tensor left, Tensor right, Tensor log_height, "
      "Tensor log_lengthscale, Tensor y) -> (Tensor, Tensor, Tensor, Tensor, Tensor, "
      "Tensor)");
  library.def(
      "gaussian_row_sums_backward(Tensor H, Tensor K, Tensor A, Tensor a, Tensor b, Tensor "
      "log_lengthscale, Tensor y, Tensor T, Tensor c, Tensor gT, Tensor gc) -> (Tensor, "
      "Tensor, Tensor, Tensor, Tensor)");
  library.def(
      "cholesky_inverse(Tensor matrix) -> (Tensor, Tensor, Tensor)");
  library.def(
      "cholesky_inverse_backward(Tensor lower, Tensor inverse, Tensor? grad_lower, Tensor? "
      "grad_inverse) -> Tensor");
}

TORCH_LIBRARY_IMPL(deepwishart, CPU, library) {
  library.impl("condition_forward", condition_forward);
  library.impl("condition_backward", condition_backward);
  library.impl("gaussian_condition_forward", gaussian_condition_forward);
  library.impl("gaussian_condition_backward", gaussian_condition_backward);
  library.impl("gaussian_square_forward", gaussian_square_forward);
  library.impl("gaussian_square_backward", gaussian_square_backward);
  library.impl("gaussian_sample_forward", gaussian_sample_forward);
  library.impl("gaussian_sample_backward", gaussian_sample_backward);
  library.impl("wishart_draw_forward", wishart_draw_forward);
  library.impl("wishart_draw_backward", wishart_draw_backward);
  library.impl("observe_forward", observe_forward);
  library.impl("observe_backward", observe_backward);
  library.impl("row_sums_forward", row_sums_forward);
  library.impl("row_sums_backward", row_sums_backward);
  library.impl("gaussian_row_sums_forward", gaussian_row_sums_forward);
  library.impl("gaussian_row_sums_backward", gaussian_row_sums_backward);
  library.impl("cholesky_inverse", cholesky_inverse);
  library.impl("cholesky_inverse_backward", cholesky_backward);
}
