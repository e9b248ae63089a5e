// The cases of the library's own kernels, one function per group.
#pragma once

#include "tests/conformance/jobs.h"

namespace ashlar::conformance {

void add_movement_cases();
void add_gated_unit_cases();
void add_loss_cases();
void add_random_number_cases();
void add_rearranged_cases();
void add_unary_cases();
void add_maths_cases();
void add_binary_cases();
void add_binary_maths_cases();
void add_compare_cases();
void add_reduction_cases();
void add_integer_sum_cases();
void add_row_cases();
void add_norm_cases();
void add_norm_kernel_cases();
void add_quantize_cases();
void add_channel_norm_cases();
void add_scan_cases();
void add_histogram_cases();
void add_forecast_cases();
void add_low_rank_cases();
void add_gradient_kernel_cases();
void add_cross_entropy_cases();
void add_matmul_cases();
void add_optimizer_cases();
void add_large_cases();
void add_nonzero_cases();
void add_integer_cases();
void add_slope_cases();
void add_sort_cases();
void add_indexing_cases();
void add_embedding_bag_cases();
void add_ragged_cases();
void add_weighted_cross_entropy_cases();
void add_row_loss_cases();
void add_attention_cases();
void add_recurrent_cases();
void add_convolution_cases();
void add_interpolation_cases();
void add_pooling_cases();
void add_linear_algebra_cases();
void add_layer_chain_cases();
void add_orthogonal_cases();
void add_composed_cases();
void add_composed_window_cases();

/// Of kernels that only others call, among `kernels`.
void add_internal_cases(Kernels kernels);

/// Of the tests' own kernels (tests/conformance/kernels).
void add_family_cases();
void add_fused_product_cases();
void add_generic_cases();
void add_neighbour_cases();
void add_plan_cases();
void add_merged_reduction_cases();

inline void add_all_cases() {
  add_movement_cases();
  add_gated_unit_cases();
  add_loss_cases();
  add_random_number_cases();
  add_rearranged_cases();
  add_unary_cases();
  add_maths_cases();
  add_binary_cases();
  add_binary_maths_cases();
  add_compare_cases();
  add_reduction_cases();
  add_integer_sum_cases();
  add_row_cases();
  add_norm_cases();
  add_norm_kernel_cases();
  add_quantize_cases();
  add_channel_norm_cases();
  add_scan_cases();
  add_histogram_cases();
  add_forecast_cases();
  add_low_rank_cases();
  add_gradient_kernel_cases();
  add_cross_entropy_cases();
  add_matmul_cases();
  add_optimizer_cases();
  add_large_cases();
  add_nonzero_cases();
  add_integer_cases();
  add_slope_cases();
  add_sort_cases();
  add_indexing_cases();
  add_embedding_bag_cases();
  add_ragged_cases();
  add_weighted_cross_entropy_cases();
  add_row_loss_cases();
  add_attention_cases();
  add_recurrent_cases();
  add_convolution_cases();
  add_interpolation_cases();
  add_pooling_cases();
  add_linear_algebra_cases();
  add_layer_chain_cases();
  add_orthogonal_cases();
  add_composed_cases();
  add_composed_window_cases();
}

}  // namespace ashlar::conformance
