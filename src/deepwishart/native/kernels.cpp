// The hot loops of deepwishart, one posterior sample at a time, threads over samples.
//
// Each function does for a whole batch what the definition in numerics/ does, with the derivation
// given there. Working sample by sample keeps a P x N block in a core's own cache between the
// operations that touch it, which a batched operation cannot.

#include <torch/library.h>

#include "anchored.h"
#include "collapsed.h"
#include "factors.h"
#include "gaussian.h"
#include "rows.h"
#include "wishart.h"

// Loops take and return what the functions do; numerics/ makes them the CPU kernels of its operations.
#define DEFINE(name) library.def(#name, torch::dispatch(c10::DispatchKey::CPU, TORCH_FN(name)))

TORCH_LIBRARY(deepwishart, library) {
  DEFINE(gaussian_square_forward);
  DEFINE(gaussian_square_backward);
  DEFINE(gaussian_rows_forward);
  DEFINE(gaussian_rows_backward);
  DEFINE(wishart_draw_forward);
  DEFINE(wishart_draw_backward);
  DEFINE(anchored_draw_forward);
  DEFINE(anchored_draw_backward);
  DEFINE(row_sums_forward);
  DEFINE(row_sums_backward);
  DEFINE(cholesky_inverse_forward);
  DEFINE(cholesky_inverse_backward);
}
