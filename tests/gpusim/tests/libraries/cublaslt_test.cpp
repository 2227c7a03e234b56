// cuBLASLt on simulated devices: products against plain loops in every type, layout, algorithm and epilogue, and
// planted misuse, each of which has to be reported.
#include <algorithm>

#include <cublasLt.h>

#include "device_array.h"
#include "matrix_product.h"

namespace {

// A product of cuBLASLt with its descriptors.
class Lt {
 public:
  Lt(cudaDataType in, cudaDataType out, const Sizes& size, bool transa, bool transb) {
    EXPECT_EQ(cublasLtCreate(&handle_), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), CUBLAS_STATUS_SUCCESS);
    const std::int32_t a_op = transa ? CUBLAS_OP_T : CUBLAS_OP_N;
    const std::int32_t b_op = transb ? CUBLAS_OP_T : CUBLAS_OP_N;
    set(CUBLASLT_MATMUL_DESC_TRANSA, a_op);
    set(CUBLASLT_MATMUL_DESC_TRANSB, b_op);
    const auto m = static_cast<std::uint64_t>(size.m), n = static_cast<std::uint64_t>(size.n),
               k = static_cast<std::uint64_t>(size.k);
    make(a, in, transa ? k : m, transa ? m : k);
    make(b, in, transb ? n : k, transb ? k : n);
    make(c, out, m, n);
  }
  ~Lt() {
    for (auto* layout : {a, b, c}) EXPECT_EQ(cublasLtMatrixLayoutDestroy(layout), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatmulDescDestroy(desc), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtDestroy(handle_), CUBLAS_STATUS_SUCCESS);
  }
  Lt(const Lt&) = delete;
  Lt& operator=(const Lt&) = delete;

  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, const Value& value) const {
    EXPECT_EQ(cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof value), CUBLAS_STATUS_SUCCESS);
  }
  static void make(cublasLtMatrixLayout_t& layout, cudaDataType type, std::uint64_t rows, std::uint64_t cols) {
    EXPECT_EQ(cublasLtMatrixLayoutCreate(&layout, type, rows, cols, static_cast<std::int64_t>(rows)),
              CUBLAS_STATUS_SUCCESS);
  }

  std::vector<cublasLtMatmulHeuristicResult_t> heuristic(std::size_t workspace_bytes) const {
    cublasLtMatmulPreference_t preference = nullptr;
    EXPECT_EQ(cublasLtMatmulPreferenceCreate(&preference), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                   &workspace_bytes, sizeof workspace_bytes),
              CUBLAS_STATUS_SUCCESS);
    std::vector<cublasLtMatmulHeuristicResult_t> results(8);
    int count = 0;
    EXPECT_EQ(cublasLtMatmulAlgoGetHeuristic(handle_, desc, a, b, c, c, preference, 8, results.data(), &count),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatmulPreferenceDestroy(preference), CUBLAS_STATUS_SUCCESS);
    results.resize(static_cast<std::size_t>(count));
    return results;
  }

  struct Run {
    float alpha = 1;
    float beta = 0;
    const void* a = nullptr;
    const void* b = nullptr;
    void* c = nullptr;
    const cublasLtMatmulAlgo_t* algo = nullptr;
    void* workspace = nullptr;
    std::size_t workspace_bytes = 0;
  };
  cublasStatus_t matmul(const Run& run, cudaStream_t stream) const {
    return cublasLtMatmul(handle_, desc, &run.alpha, run.a, a, run.b, b, &run.beta, run.c, c, run.c, c, run.algo,
                          run.workspace, run.workspace_bytes, stream);
  }

  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;

 private:
  cublasLtHandle_t handle_ = nullptr;
};

class CublasLtTest : public LibraryTest {
 protected:
  Stream stream_;
};

TEST_F(CublasLtTest, EveryTranspositionAndAlgorithm) {
  for (const bool transa : {false, true}) {
    for (const bool transb : {false, true}) {
      const Lt lt(CUDA_R_32F, CUDA_R_32F, kSizes, transa, transb);
      const auto a = values(kA, 1);
      const auto b = values(kB, 2);
      const auto algos = lt.heuristic(1 << 20);
      EXPECT_EQ(algos.size(), 2U);
      for (const auto& found : algos) {
        const DeviceArray<float> da(a), db(b), dc(kC);
        const DeviceArray<char> workspace(std::max<std::size_t>(found.workspaceSize, 16));
        ASSERT_EQ(lt.matmul({.a = da.get(),
                             .b = db.get(),
                             .c = dc.get(),
                             .algo = &found.algo,
                             .workspace = workspace.get(),
                             .workspace_bytes = found.workspaceSize},
                            stream_.get()),
                  CUBLAS_STATUS_SUCCESS);
        stream_.wait();
        EXPECT_EQ(dc.download(), product(kSizes, a, transa, b, transb));
      }
    }
  }
}

TEST_F(CublasLtTest, TheHeuristicKeepsToTheWorkspace) {
  const Lt lt(CUDA_R_32F, CUDA_R_32F, kSizes, false, false);
  const auto algos = lt.heuristic(16);
  ASSERT_EQ(algos.size(), 1U);
  EXPECT_EQ(algos[0].workspaceSize, 0U);
}

TEST_F(CublasLtTest, BiasReluAndBiasReluInSixteenBits) {
  const auto a = values(kA, 1);
  const auto b = values(kB, 2);
  const auto bias = values(static_cast<std::size_t>(kSizes.m), 4);
  const auto plain = product(kSizes, a, false, b, false);
  const DeviceArray<__nv_bfloat16> da(to_bfloat(a)), db(to_bfloat(b)), dbias(to_bfloat(bias)), dc(kC);
  for (const cublasLtEpilogue_t epilogue :
       {CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU_BIAS}) {
    const Lt lt(CUDA_R_16BF, CUDA_R_16BF, kSizes, false, false);
    lt.set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    lt.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, dbias.get());
    ASSERT_EQ(lt.matmul({.a = da.get(), .b = db.get(), .c = dc.get()}, stream_.get()), CUBLAS_STATUS_SUCCESS);
    stream_.wait();
    auto expected = plain;
    for (std::size_t i = 0; i < kC; ++i) {
      if (epilogue & CUBLASLT_EPILOGUE_BIAS) expected[i] += bias[i % static_cast<std::size_t>(kSizes.m)];
      if (epilogue & CUBLASLT_EPILOGUE_RELU) expected[i] = std::max(expected[i], 0.0F);
    }
    EXPECT_EQ(to_float(dc.download()), to_float(to_bfloat(expected)));
  }
}

TEST_F(CublasLtTest, BiasGradientsAreSumsOverTheInputs) {
  const auto a = values(kA, 1);
  const auto b = values(kB, 2);
  const DeviceArray<float> da(a), db(b), dc(kC);
  for (const bool of_a : {true, false}) {
    const std::size_t length = static_cast<std::size_t>(of_a ? kSizes.m : kSizes.n);
    const DeviceArray<float> dbias(length);
    const Lt lt(CUDA_R_32F, CUDA_R_32F, kSizes, false, false);
    lt.set(CUBLASLT_MATMUL_DESC_EPILOGUE, of_a ? CUBLASLT_EPILOGUE_BGRADA : CUBLASLT_EPILOGUE_BGRADB);
    lt.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, dbias.get());
    ASSERT_EQ(lt.matmul({.a = da.get(), .b = db.get(), .c = dc.get()}, stream_.get()), CUBLAS_STATUS_SUCCESS);
    stream_.wait();
    std::vector<float> expected(length);
    for (int l = 0; l < kSizes.k; ++l) {
      for (std::size_t i = 0; i < length; ++i) {
        expected[i] += of_a ? a[i + static_cast<std::size_t>(l * kSizes.m)]
                            : b[static_cast<std::size_t>(l) + i * static_cast<std::size_t>(kSizes.k)];
      }
    }
    EXPECT_EQ(dbias.download(), expected);
    EXPECT_EQ(dc.download(), product(kSizes, a, false, b, false));
  }
}

TEST_F(CublasLtTest, RowOrderAndBatches) {
  const Sizes size = {4, 3, 5};
  const Lt lt(CUDA_R_32F, CUDA_R_32F, size, false, false);
  const std::int32_t row = CUBLASLT_ORDER_ROW, batches = 2;
  const auto set = [&](cublasLtMatrixLayout_t layout, std::int64_t leading, std::int64_t stride) {
    EXPECT_EQ(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_ORDER, &row, sizeof row),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_LD, &leading, sizeof leading),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batches, sizeof batches),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(
        cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride),
        CUBLAS_STATUS_SUCCESS);
  };
  set(lt.a, 5, 20);
  set(lt.b, 3, 0);  // one b for both
  set(lt.c, 3, 12);
  const auto a = values(40, 1);
  const auto b = values(15, 2);
  const DeviceArray<float> da(a), db(b), dc(24);
  ASSERT_EQ(lt.matmul({.a = da.get(), .b = db.get(), .c = dc.get()}, stream_.get()), CUBLAS_STATUS_SUCCESS);
  stream_.wait();
  std::vector<float> expected(24);
  for (std::size_t i = 0; i < 8; ++i) {
    for (std::size_t j = 0; j < 3; ++j) {
      for (std::size_t l = 0; l < 5; ++l) expected[i * 3 + j] += a[i * 5 + l] * b[l * 3 + j];
    }
  }
  EXPECT_EQ(dc.download(), expected);
}

TEST_F(CublasLtTest, ReportsTooSmallAWorkspaceAMissingBiasAndABadShape) {
  const DeviceArray<float> da(values(kA, 1)), db(values(kB, 2)), dc(kC);
  const Lt lt(CUDA_R_32F, CUDA_R_32F, kSizes, false, false);
  const auto algos = lt.heuristic(1 << 20);
  for (const auto& found : algos) {
    if (found.workspaceSize == 0) continue;
    EXPECT_EQ(lt.matmul({.a = da.get(), .b = db.get(), .c = dc.get(), .algo = &found.algo}, stream_.get()),
              CUBLAS_STATUS_INVALID_VALUE);
    expect_report("invalid_call", "bytes of workspace, 0 were given");
  }
  lt.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  EXPECT_EQ(lt.matmul({.a = da.get(), .b = db.get(), .c = dc.get()}, stream_.get()), CUBLAS_STATUS_INVALID_VALUE);
  expect_report("invalid_call", "bias, whose pointer was not set");
  EXPECT_EQ(lt.matmul({.a = da.get(), .b = db.get(), .c = dc.get(), .algo = &algos[0].algo}, stream_.get()),
            CUBLAS_STATUS_NOT_SUPPORTED);
  expect_report("invalid_call", "another epilogue");
  const Lt other(CUDA_R_32F, CUDA_R_32F, {37, 22, 20}, false, false);
  EXPECT_EQ(cublasLtMatrixLayoutSetAttribute(other.b, CUBLASLT_MATRIX_LAYOUT_ROWS, &dc, 2),
            CUBLAS_STATUS_INVALID_VALUE);
  expect_report("invalid_call", "8 bytes, not 2");
  const std::uint64_t rows = 18;
  ASSERT_EQ(cublasLtMatrixLayoutSetAttribute(other.b, CUBLASLT_MATRIX_LAYOUT_ROWS, &rows, sizeof rows),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(other.matmul({.a = da.get(), .b = db.get(), .c = dc.get()}, stream_.get()), CUBLAS_STATUS_INVALID_VALUE);
  expect_report("invalid_call", "op(A) is 37 x 20, op(B) is 18 x 22");
}

TEST_F(CublasLtTest, ReportsAnAddressLessAlignedThanPromised) {
  const DeviceArray<float> da(values(kA + 1, 1)), db(values(kB, 2)), dc(kC);
  const Lt lt(CUDA_R_32F, CUDA_R_32F, kSizes, false, false);
  const auto algos = lt.heuristic(0);
  EXPECT_EQ(lt.matmul({.a = da.get() + 1, .b = db.get(), .c = dc.get(), .algo = &algos[0].algo}, stream_.get()),
            CUBLAS_STATUS_INVALID_VALUE);
  expect_report("invalid_call", "MIN_ALIGNMENT_A_BYTES");
}

}  // namespace
