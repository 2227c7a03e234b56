// cuBLAS on simulated devices: products against plain loops in every type and layout, and planted misuse, each of which
// has to be reported.
#include <algorithm>

#include <cublas_v2.h>

#include "device_array.h"
#include "matrix_product.h"

namespace {

class CublasTest : public LibraryTest {
 protected:
  CublasTest() {
    EXPECT_EQ(cublasCreate(&handle_), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasSetStream(handle_, stream_.get()), CUBLAS_STATUS_SUCCESS);
  }
  ~CublasTest() override { EXPECT_EQ(cublasDestroy(handle_), CUBLAS_STATUS_SUCCESS); }
  Stream stream_;
  cublasHandle_t handle_ = nullptr;
};

TEST_F(CublasTest, SgemmOfEveryTransposition) {
  for (const bool transa : {false, true}) {
    for (const bool transb : {false, true}) {
      const auto a = values(kA, 1);
      const auto b = values(kB, 2);
      const auto c = values(kC, 3);
      const DeviceArray<float> da(a), db(b), dc(c);
      const float alpha = 2, beta = 0.5F;
      ASSERT_EQ(cublasSgemm(handle_, transa ? CUBLAS_OP_T : CUBLAS_OP_N, transb ? CUBLAS_OP_T : CUBLAS_OP_N, kSizes.m,
                            kSizes.n, kSizes.k, &alpha, da.get(), transa ? kSizes.k : kSizes.m, db.get(),
                            transb ? kSizes.n : kSizes.k, &beta, dc.get(), kSizes.m),
                CUBLAS_STATUS_SUCCESS);
      stream_.wait();
      auto expected = product(kSizes, a, transa, b, transb);
      for (std::size_t i = 0; i < kC; ++i) expected[i] = alpha * expected[i] + beta * c[i];
      EXPECT_EQ(dc.download(), expected);
    }
  }
}

TEST_F(CublasTest, LongSumsOverSeveralBlocks) {
  const Sizes size = {130, 70, 1100};
  const auto a = values(130 * 1100, 1);
  const auto b = values(1100 * 70, 2);
  const DeviceArray<float> da(a), db(b), dc(130 * 70);
  const float alpha = 1, beta = 0;
  ASSERT_EQ(cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, size.m, size.n, size.k, &alpha, da.get(), size.m, db.get(),
                        size.k, &beta, dc.get(), size.m),
            CUBLAS_STATUS_SUCCESS);
  stream_.wait();
  EXPECT_EQ(dc.download(), product(size, a, false, b, false));
}

TEST_F(CublasTest, HalfInputsWithHalfAndFloatResults) {
  const auto a = values(kA, 1);
  const auto b = values(kB, 2);
  const auto expected = product(kSizes, a, false, b, false);
  const DeviceArray<__half> da(to_half(a)), db(to_half(b)), dc(kC);
  const DeviceArray<float> dc32(kC);
  const float alpha = 1, beta = 0;
  ASSERT_EQ(cublasGemmEx(handle_, CUBLAS_OP_N, CUBLAS_OP_N, kSizes.m, kSizes.n, kSizes.k, &alpha, da.get(), CUDA_R_16F,
                         kSizes.m, db.get(), CUDA_R_16F, kSizes.k, &beta, dc.get(), CUDA_R_16F, kSizes.m,
                         CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
            CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasGemmEx(handle_, CUBLAS_OP_N, CUBLAS_OP_N, kSizes.m, kSizes.n, kSizes.k, &alpha, da.get(), CUDA_R_16F,
                         kSizes.m, db.get(), CUDA_R_16F, kSizes.k, &beta, dc32.get(), CUDA_R_32F, kSizes.m,
                         CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
            CUBLAS_STATUS_SUCCESS);
  stream_.wait();
  EXPECT_EQ(to_float(dc.download()), to_float(to_half(expected)));
  EXPECT_EQ(dc32.download(), expected);
}

TEST_F(CublasTest, StridedBatchesLeaveTheGapsAlone) {
  const Sizes size = {3, 2, 4};
  const auto a = values(3 * 2 * 4, 1);  // two batches
  const auto b = values(4 * 2 * 2, 2);
  std::vector<float> c(40, -7);
  const DeviceArray<float> da(a), db(b), dc(c);
  const float alpha = 1, beta = 0;
  // Columns of 3 in steps of 5, batches in steps of 20.
  ASSERT_EQ(cublasGemmStridedBatchedEx(handle_, CUBLAS_OP_N, CUBLAS_OP_N, size.m, size.n, size.k, &alpha, da.get(),
                                       CUDA_R_32F, 3, 12, db.get(), CUDA_R_32F, 4, 8, &beta, dc.get(), CUDA_R_32F, 5,
                                       20, 2, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
            CUBLAS_STATUS_SUCCESS);
  stream_.wait();
  for (std::size_t batch = 0; batch < 2; ++batch) {
    const std::vector<float> a_one(a.begin() + static_cast<long>(batch) * 12,
                                   a.begin() + static_cast<long>(batch + 1) * 12);
    const std::vector<float> b_one(b.begin() + static_cast<long>(batch) * 8,
                                   b.begin() + static_cast<long>(batch + 1) * 8);
    const auto one = product(size, a_one, false, b_one, false);
    for (std::size_t j = 0; j < 2; ++j)
      std::copy_n(one.begin() + static_cast<long>(j) * 3, 3, c.begin() + static_cast<long>(batch * 20 + j * 5));
  }
  EXPECT_EQ(dc.download(), c);
}

TEST_F(CublasTest, AnotherStreamMayUseTheGapsMeanwhile) {
  const DeviceArray<float> da(values(6, 1)), db(values(4, 2)), dc(10), other_values(values(2, 3));
  const Stream other;
  const float alpha = 1, beta = 0;
  // Columns of 3 in steps of 5: elements 3 and 4 belong to somebody else.
  ASSERT_EQ(
      cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 3, 2, 2, &alpha, da.get(), 3, db.get(), 2, &beta, dc.get(), 5),
      CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cudaMemcpyAsync(dc.get() + 3, other_values.get(), 8, cudaMemcpyDeviceToDevice, other.get()), cudaSuccess);
  other.wait();
  stream_.wait();
}

TEST_F(CublasTest, ScalarsOnTheDeviceAreReadWhenTheProductRuns) {
  const auto a = values(kA, 1);
  const auto b = values(kB, 2);
  const DeviceArray<float> da(a), db(b), dc(kC), alpha(std::vector<float>{9}), beta(std::vector<float>{0});
  ASSERT_EQ(cublasSetPointerMode(handle_, CUBLAS_POINTER_MODE_DEVICE), CUBLAS_STATUS_SUCCESS);
  const float three = 3;
  ASSERT_EQ(cudaMemcpyAsync(alpha.get(), &three, sizeof three, cudaMemcpyHostToDevice, stream_.get()), cudaSuccess);
  ASSERT_EQ(cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, kSizes.m, kSizes.n, kSizes.k, alpha.get(), da.get(),
                        kSizes.m, db.get(), kSizes.k, beta.get(), dc.get(), kSizes.m),
            CUBLAS_STATUS_SUCCESS);
  stream_.wait();
  auto expected = product(kSizes, a, false, b, false);
  for (auto& value : expected) value *= 3;
  EXPECT_EQ(dc.download(), expected);
}

TEST_F(CublasTest, ProductsAreCapturedIntoGraphs) {
  const auto a = values(kA, 1);
  const auto b = values(kB, 2);
  const DeviceArray<float> da(a), db(b), dc(std::vector<float>(kC, 0));
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal), cudaSuccess);
  {
    const float alpha = 1, beta = 1;  // captured by value
    ASSERT_EQ(cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, kSizes.m, kSizes.n, kSizes.k, &alpha, da.get(), kSizes.m,
                          db.get(), kSizes.k, &beta, dc.get(), kSizes.m),
              CUBLAS_STATUS_SUCCESS);
  }
  ASSERT_EQ(cudaStreamEndCapture(stream_.get(), &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(cudaGraphLaunch(exec, stream_.get()), cudaSuccess);
  stream_.wait();
  auto expected = product(kSizes, a, false, b, false);
  for (auto& value : expected) value *= 3;
  EXPECT_EQ(dc.download(), expected);
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
}

TEST_F(CublasTest, ReportsALeadingDimensionThatIsTooSmall) {
  const DeviceArray<float> da(values(kA, 1)), db(values(kB, 2)), dc(kC);
  const float alpha = 1, beta = 0;
  EXPECT_EQ(cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, kSizes.m, kSizes.n, kSizes.k, &alpha, da.get(), kSizes.m - 1,
                        db.get(), kSizes.k, &beta, dc.get(), kSizes.m),
            CUBLAS_STATUS_INVALID_VALUE);
  expect_report("invalid_call", "leading dimension 36 of matrix A");
}

TEST_F(CublasTest, ReportsAResultThatDoesNotFitItsBlock) {
  {
    const DeviceArray<float> da(values(kA, 1)), db(values(kB, 2)), dc(kC - 1);
    const float alpha = 1, beta = 0;
    EXPECT_EQ(cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, kSizes.m, kSizes.n, kSizes.k, &alpha, da.get(), kSizes.m,
                          db.get(), kSizes.k, &beta, dc.get(), kSizes.m),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_NE(cudaStreamSynchronize(stream_.get()), cudaSuccess);
    expect_report("out_of_bounds", "matrix D");
  }
  cudaDeviceReset();  // the device was lost
}

TEST_F(CublasTest, ReportsAnInputNobodyWroteAndANullWorkspace) {
  const DeviceArray<float> da(kA), db(values(kB, 2)), dc(kC);
  const float alpha = 1, beta = 0;
  EXPECT_EQ(cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, kSizes.m, kSizes.n, kSizes.k, &alpha, da.get(), kSizes.m,
                        db.get(), kSizes.k, &beta, dc.get(), kSizes.m),
            CUBLAS_STATUS_SUCCESS);
  stream_.wait();
  expect_report("uninitialised_read", "matrix A");
  EXPECT_EQ(cublasSetWorkspace(handle_, nullptr, 1024), CUBLAS_STATUS_INVALID_VALUE);
  expect_report("invalid_call", "null workspace");
}

TEST_F(CublasTest, ReportsOneWorkspaceUsedByTwoStreamsAtOnce) {
  const DeviceArray<float> da(values(kA, 1)), db(values(kB, 2)), dc(kC), dd(kC), workspace(1024);
  const Stream other;
  const float alpha = 1, beta = 0;
  for (const bool first : {true, false}) {
    ASSERT_EQ(cublasSetStream(handle_, first ? stream_.get() : other.get()), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(cublasSetWorkspace(handle_, workspace.get(), workspace.bytes()), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, kSizes.m, kSizes.n, kSizes.k, &alpha, da.get(), kSizes.m,
                          db.get(), kSizes.k, &beta, first ? dc.get() : dd.get(), kSizes.m),
              CUBLAS_STATUS_SUCCESS);
  }
  stream_.wait();
  other.wait();
  expect_report("stream_race", "cublasSgemm");
}

TEST_F(CublasTest, ReportsAScalarInTheWrongPlaceAndTypesThatDoNotFit) {
  const DeviceArray<float> da(values(kA, 1)), db(values(kB, 2)), dc(kC);
  const float alpha = 1, beta = 0;
  EXPECT_EQ(cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, kSizes.m, kSizes.n, kSizes.k, da.get(), da.get(), kSizes.m,
                        db.get(), kSizes.k, &beta, dc.get(), kSizes.m),
            CUBLAS_STATUS_INVALID_VALUE);
  expect_report("invalid_call", "alpha is a device pointer");
  EXPECT_EQ(cublasGemmEx(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &alpha, da.get(), CUDA_R_32F, 2, db.get(),
                         CUDA_R_32F, 2, &beta, dc.get(), CUDA_R_16F, 2, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
            CUBLAS_STATUS_NOT_SUPPORTED);
  expect_report("invalid_call", "f32 and f32 gives f16");
  EXPECT_EQ(cublasGemmEx(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &alpha, da.get(), CUDA_R_64F, 2, db.get(),
                         CUDA_R_64F, 2, &beta, dc.get(), CUDA_R_64F, 2, CUBLAS_COMPUTE_64F, CUBLAS_GEMM_DEFAULT),
            CUBLAS_STATUS_NOT_SUPPORTED);
  expect_report("unsupported", "compute type 70");
}

TEST_F(CublasTest, ReportsAFunctionThatIsNotSimulated) {
  EXPECT_EQ(
      cublasDgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, nullptr, nullptr, 1, nullptr, 1, nullptr, nullptr, 1),
      CUBLAS_STATUS_NOT_SUPPORTED);
  expect_report("unsupported", "cublasDgemm_v2");
}

TEST_F(CublasTest, ReportsAHandleAfterItsEnd) {
  cublasHandle_t gone = nullptr;
  ASSERT_EQ(cublasCreate(&gone), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasDestroy(gone), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasSetStream(gone, nullptr), CUBLAS_STATUS_NOT_INITIALIZED);
  expect_report("invalid_call", "destroyed");
}

}  // namespace
