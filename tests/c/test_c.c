/* The C interface as a program in C sees it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dlpack/dlpack.h>

#include "ashlar.h"

#define EXPECT(condition)                                                                           \
  do {                                                                                              \
    if (!(condition)) {                                                                             \
      fprintf(stderr, "%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #condition, ashlar_last_error()); \
      exit(1);                                                                                      \
    }                                                                                               \
  } while (0)

static AshlarTensor* tensor(const float* values, size_t rank, const int64_t* shape, const char* device) {
  AshlarTensor* made = NULL;
  size_t count = 1;
  for (size_t i = 0; i < rank; i++) count *= (size_t)shape[i];
  EXPECT(ashlar_tensor_create("f32", rank, shape, device, &made) == ASHLAR_OK);
  EXPECT(ashlar_tensor_write(made, values, count * sizeof(float)) == ASHLAR_OK);
  return made;
}

static void expect_values(const AshlarTensor* y, const float* values, size_t count) {
  float* came = malloc(count * sizeof(float));
  EXPECT(ashlar_tensor_read(y, came, count * sizeof(float)) == ASHLAR_OK);
  for (size_t i = 0; i < count; i++) EXPECT(fabsf(came[i] - values[i]) <= 1e-6f * fabsf(values[i]));
  free(came);
}

static void calls(const char* device) {
  const int64_t shape[] = {2, 3}, flipped[] = {3, 2}, steps[] = {1, 3}, axes[] = {0};
  const float values[] = {1, 2, 3, 4, 5, 6}, sums[] = {5, 7, 9}, turned[] = {1, 4, 2, 5, 3, 6};
  AshlarTensor *x = tensor(values, 2, shape, device), *y = NULL, *view = NULL;
  size_t count = 0;
  const AshlarOption reduce[] = {{.name = "axes", .kind = ASHLAR_INTEGERS, .integers = axes, .count = 1},
                                 {.name = "keepdim", .kind = ASHLAR_INTEGER, .integer = 1}};
  EXPECT(ashlar_call("sum", (const AshlarTensor* const*)&x, 1, reduce, 2, &y, 1, &count) == ASHLAR_OK);
  EXPECT(count == 1 && ashlar_tensor_rank(y) == 2 && ashlar_tensor_shape(y)[0] == 1 && ashlar_tensor_shape(y)[1] == 3);
  EXPECT(strcmp(ashlar_tensor_dtype(y), "f32") == 0 && strcmp(ashlar_tensor_device(y), device) == 0);
  expect_values(y, sums, 3);

  /* A view of the same memory: what is written through one is seen by the other. */
  EXPECT(ashlar_tensor_view(x, 2, flipped, steps, 0, &view) == ASHLAR_OK);
  expect_values(view, turned, 6);
  EXPECT(ashlar_tensor_write(view, values, sizeof values) == ASHLAR_OK);
  expect_values(view, values, 6);

  /* d(Σ scale x)/dx = scale; the second gradient isn't wanted. */
  AshlarTensor *both[] = {x, x}, *dx[2] = {NULL, NULL};
  const int wanted[] = {1, 0};
  const float ones[] = {1, 1, 1, 1, 1, 1};
  AshlarTensor* dy = tensor(ones, 2, shape, device);
  EXPECT(ashlar_gradients("mul", (const AshlarTensor* const*)both, 2, NULL, 0, (const AshlarTensor* const*)&dy, 1,
                          wanted, dx) == ASHLAR_OK);
  EXPECT(dx[0] != NULL && dx[1] == NULL);

  ashlar_tensor_free(dx[0]);
  ashlar_tensor_free(dy);
  ashlar_tensor_free(view);
  ashlar_tensor_free(y);
  ashlar_tensor_free(x);
}

/* Numbers that may be left out are what the operator's declaration says. */
static void defaults(const char* device) {
  const int64_t shape[] = {3};
  const float values[] = {-1, 0.25f, 2}, leaky[] = {-0.01f, 0.25f, 2}, steep[] = {-0.5f, 0.25f, 2};
  AshlarTensor *x = tensor(values, 1, shape, device), *y = NULL;
  const AshlarOption slope = {.name = "negative_slope", .kind = ASHLAR_REAL, .real = 0.5};
  EXPECT(ashlar_call("leaky_relu", (const AshlarTensor* const*)&x, 1, NULL, 0, &y, 1, NULL) == ASHLAR_OK);
  expect_values(y, leaky, 3);
  ashlar_tensor_free(y);
  EXPECT(ashlar_call("leaky_relu", (const AshlarTensor* const*)&x, 1, &slope, 1, &y, 1, NULL) == ASHLAR_OK);
  expect_values(y, steep, 3);
  ashlar_tensor_free(y);
  const char* json = NULL;
  EXPECT(ashlar_operator_describe("leaky_relu", &json) == ASHLAR_OK && strstr(json, "\"default\":0.01") != NULL);
  ashlar_tensor_free(x);
}

/* What is composed of other operators is called as they are: losses with options, pools over one axis, other sizes. */
static void composed(const char* device) {
  const int64_t rows[] = {2, 3}, two[] = {2}, three[] = {3}, lengths[] = {1, 6}, images[] = {1, 1, 2, 2};
  const float values[] = {1, 2, 3, 4, 5, 6}, weights[] = {1, 2, 3}, ones[] = {1, 1}, one = 1;
  const int64_t labels[] = {0, -100};
  AshlarTensor *x = tensor(values, 2, rows, device), *weight = tensor(weights, 1, three, device), *target = NULL;
  AshlarTensor *y = NULL, *dx[2] = {NULL, NULL};
  EXPECT(ashlar_tensor_create("i64", 1, two, device, &target) == ASHLAR_OK);
  EXPECT(ashlar_tensor_write(target, labels, sizeof labels) == ASHLAR_OK);

  /* -weight[0] log softmax(1, 2, 3)[0]; the second row is ignored. */
  const AshlarTensor* both[] = {x, target};
  const AshlarOption options[] = {{.name = "reduction", .kind = ASHLAR_TEXT, .text = "none"},
                                  {.name = "weight", .kind = ASHLAR_TENSOR, .tensor = weight}};
  const float e[] = {0.09003057f, 0.24472847f, 0.66524096f};
  const float losses[] = {2.4076059f, 0}, slopes[] = {e[0] - 1, e[1], e[2], 0, 0, 0};
  EXPECT(ashlar_call("cross_entropy_loss", both, 2, options, 2, &y, 1, NULL) == ASHLAR_OK);
  expect_values(y, losses, 2);
  ashlar_tensor_free(y);
  AshlarTensor* dy = tensor(ones, 1, two, device);
  EXPECT(ashlar_gradients("cross_entropy_loss", both, 2, options, 2, (const AshlarTensor* const*)&dy, 1, NULL, dx) ==
         ASHLAR_OK);
  EXPECT(dx[0] != NULL && dx[1] == NULL);
  expect_values(dx[0], slopes, 6);
  ashlar_tensor_free(dx[0]);
  ashlar_tensor_free(dy);
  const AshlarOption unknown = {.name = "reduction", .kind = ASHLAR_TEXT, .text = "average"};
  EXPECT(ashlar_call("cross_entropy_loss", both, 2, &unknown, 1, &y, 1, NULL) == ASHLAR_VALUE_ERROR);
  EXPECT(ashlar_call("cross_entropy_loss", (const AshlarTensor*[]){x, weight}, 2, NULL, 0, &y, 1, NULL) ==
         ASHLAR_SHAPE_ERROR);

  const AshlarOption window = {.name = "kernel_size", .kind = ASHLAR_INTEGERS, .integers = two, .count = 1};
  const float means[] = {1.5f, 3.5f, 5.5f}, sixths[] = {0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f};
  AshlarTensor* line = tensor(values, 2, lengths, device);
  EXPECT(ashlar_call("avg_pool1d", (const AshlarTensor* const*)&line, 1, &window, 1, &y, 1, NULL) == ASHLAR_OK);
  expect_values(y, means, 3);
  EXPECT(ashlar_gradients("avg_pool1d", (const AshlarTensor* const*)&line, 1, &window, 1,
                          (const AshlarTensor* const*)&weight, 1, NULL, dx) == ASHLAR_SHAPE_ERROR); /* [3] for [1, 3] */
  ashlar_tensor_free(y);
  const int64_t pools[] = {1, 3};
  AshlarTensor* upstream = tensor((const float[]){1, 1, 1}, 2, pools, device);
  EXPECT(ashlar_gradients("avg_pool1d", (const AshlarTensor* const*)&line, 1, &window, 1,
                          (const AshlarTensor* const*)&upstream, 1, NULL, dx) == ASHLAR_OK);
  expect_values(dx[0], sixths, 6);
  ashlar_tensor_free(dx[0]);
  ashlar_tensor_free(upstream);
  EXPECT(ashlar_call("avg_pool1d", (const AshlarTensor* const*)&line, 1, NULL, 0, &y, 1, NULL) == ASHLAR_VALUE_ERROR);

  const AshlarOption twice[] = {{.name = "scale_factor", .kind = ASHLAR_REAL, .real = 2},
                                {.name = "mode", .kind = ASHLAR_TEXT, .text = "nearest"}};
  const float enlarged[] = {1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4};
  AshlarTensor* image = tensor(values, 4, images, device);
  EXPECT(ashlar_call("interpolate", (const AshlarTensor* const*)&image, 1, twice, 2, &y, 1, NULL) == ASHLAR_OK);
  expect_values(y, enlarged, 16);
  ashlar_tensor_free(y);

  /* Defaults are PyTorch's: delta is 1. */
  AshlarTensor *far = tensor((const float[]){3}, 0, NULL, device), *near = tensor(&one, 0, NULL, device);
  const float loss = 1.5f;
  EXPECT(ashlar_call("huber_loss", (const AshlarTensor*[]){far, near}, 2, NULL, 0, &y, 1, NULL) == ASHLAR_OK);
  expect_values(y, &loss, 1);
  ashlar_tensor_free(y);

  ashlar_tensor_free(far);
  ashlar_tensor_free(near);
  ashlar_tensor_free(image);
  ashlar_tensor_free(line);
  ashlar_tensor_free(target);
  ashlar_tensor_free(weight);
  ashlar_tensor_free(x);
}

static int deleted = 0;
static void count_deletion(struct DLManagedTensor* self) {
  (void)self;
  deleted++;
}

static void dlpack(void) {
  float values[] = {1, 2, 3, 4, 5, 6};
  int64_t shape[] = {3}, strides[] = {-2};
  DLManagedTensor managed;
  memset(&managed, 0, sizeof managed);
  managed.dl_tensor.data = &values[5]; /* backwards: 6, 4, 2 */
  managed.dl_tensor.device.device_type = kDLCPU;
  managed.dl_tensor.ndim = 1;
  managed.dl_tensor.dtype.code = kDLFloat;
  managed.dl_tensor.dtype.bits = 32;
  managed.dl_tensor.dtype.lanes = 1;
  managed.dl_tensor.shape = shape;
  managed.dl_tensor.strides = strides;
  managed.deleter = count_deletion;

  AshlarTensor *x = NULL, *view = NULL;
  EXPECT(ashlar_tensor_from_dlpack(&managed, &x) == ASHLAR_OK);
  EXPECT(ashlar_tensor_data(x) == &values[5]);
  const float backwards[] = {6, 4, 2};
  expect_values(x, backwards, 3);
  EXPECT(ashlar_tensor_view(x, 1, shape, strides, 0, &view) == ASHLAR_OK);
  ashlar_tensor_free(x);
  EXPECT(deleted == 0); /* the view shares the memory */

  DLManagedTensor* out = NULL;
  EXPECT(ashlar_tensor_to_dlpack(view, &out) == ASHLAR_OK);
  ashlar_tensor_free(view);
  EXPECT(deleted == 0 && out->dl_tensor.data == &values[5] && out->dl_tensor.strides[0] == -2);
  out->deleter(out);
  EXPECT(deleted == 1);

  /* What can't be taken stays the caller's. */
  managed.dl_tensor.dtype.lanes = 4;
  EXPECT(ashlar_tensor_from_dlpack(&managed, &x) == ASHLAR_DTYPE_ERROR);
  managed.dl_tensor.dtype.lanes = 1;
  managed.dl_tensor.data = (char*)&values[5] + 1;
  EXPECT(ashlar_tensor_from_dlpack(&managed, &x) == ASHLAR_VALUE_ERROR);
  managed.dl_tensor.device.device_type = kDLVulkan;
  EXPECT(ashlar_tensor_from_dlpack(&managed, &x) == ASHLAR_DEVICE_ERROR);
  EXPECT(deleted == 1);
}

static void errors(void) {
  const int64_t shape[] = {2}, nine[] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  const float values[] = {1, 2};
  AshlarTensor *x = tensor(values, 1, shape, "cpu"), *y = NULL;
  const AshlarTensor* inputs[] = {x, x, x};
  AshlarStream* stream = NULL;
  EXPECT(ashlar_call("sofmtax", inputs, 1, NULL, 0, &y, 1, NULL) == ASHLAR_VALUE_ERROR);
  EXPECT(strstr(ashlar_last_error(), "sofmtax") != NULL);
  EXPECT(ashlar_call("copy", inputs, 1, NULL, 0, &y, 1, NULL) == ASHLAR_VALUE_ERROR); /* internal */
  EXPECT(ashlar_call("relu", inputs, 2, NULL, 0, &y, 1, NULL) == ASHLAR_VALUE_ERROR);
  EXPECT(ashlar_call("relu", NULL, 1, NULL, 0, &y, 1, NULL) == ASHLAR_VALUE_ERROR);
  EXPECT(ashlar_call("relu", inputs, 1, NULL, 0, &y, 0, NULL) == ASHLAR_VALUE_ERROR);
  EXPECT(ashlar_call("affine", inputs, 1, NULL, 0, &y, 1, NULL) == ASHLAR_VALUE_ERROR);
  const AshlarOption text = {.name = "axis", .kind = ASHLAR_TEXT, .text = "last"};
  const AshlarOption unknown = {.name = "axes", .kind = ASHLAR_INTEGER};
  const AshlarOption outside = {.name = "axis", .kind = ASHLAR_INTEGER, .integer = 1};
  const AshlarOption twice[] = {outside, outside};
  EXPECT(ashlar_call("softmax", inputs, 1, &text, 1, &y, 1, NULL) == ASHLAR_VALUE_ERROR);
  EXPECT(ashlar_call("softmax", inputs, 1, &unknown, 1, &y, 1, NULL) == ASHLAR_VALUE_ERROR);
  EXPECT(ashlar_call("softmax", inputs, 1, &outside, 1, &y, 1, NULL) == ASHLAR_INDEX_ERROR);
  EXPECT(ashlar_call("softmax", inputs, 1, twice, 2, &y, 1, NULL) == ASHLAR_VALUE_ERROR);
  EXPECT(ashlar_tensor_create("f31", 1, shape, "cpu", &y) == ASHLAR_DTYPE_ERROR);
  EXPECT(ashlar_tensor_create("f32", 9, nine, "cpu", &y) == ASHLAR_SHAPE_ERROR);
  EXPECT(ashlar_tensor_create("f32", 1, shape, "gpu", &y) == ASHLAR_DEVICE_ERROR);
  EXPECT(ashlar_tensor_write(x, values, 4) == ASHLAR_VALUE_ERROR);
  EXPECT(ashlar_stream_from_cuda(NULL, "cpu", &stream) == ASHLAR_DEVICE_ERROR);
  EXPECT(ashlar_stream_synchronize(NULL) == ASHLAR_VALUE_ERROR);
  EXPECT(y == NULL && stream == NULL);
  ashlar_tensor_free(x);
  ashlar_tensor_free(NULL);
}

int main(void) {
  EXPECT(strcmp(ashlar_last_error(), "") == 0);
  EXPECT(ashlar_operator_count() > 30 && ashlar_operator_name(ashlar_operator_count()) == NULL);
  for (size_t i = 0; i < ashlar_operator_count(); i++) {
    const char* json = NULL;
    EXPECT(ashlar_operator_describe(ashlar_operator_name(i), &json) == ASHLAR_OK);
    EXPECT(strstr(json, ashlar_operator_name(i)) != NULL);
  }
  AshlarStream *own = NULL, *current = NULL;
  EXPECT(ashlar_stream_create("cpu", &own) == ASHLAR_OK && ashlar_stream_make_current(own) == ASHLAR_OK);
  EXPECT(ashlar_stream_current("cpu", &current) == ASHLAR_OK && ashlar_stream_wait(own, current) == ASHLAR_OK);
  EXPECT(ashlar_stream_synchronize(current) == ASHLAR_OK);
  ashlar_stream_free(current);
  ashlar_stream_free(own);

  calls("cpu");
  defaults("cpu");
  composed("cpu");
  dlpack();
  errors();
  puts("ok");
  return 0;
}
