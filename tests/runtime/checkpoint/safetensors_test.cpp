// What the reader accepts, and that every way in which a file can be wrong is one Error naming it.
#include "runtime/checkpoint/safetensors.h"

#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "runtime/checkpoint/python.h"
#include "runtime/checkpoint/temporary_directory.h"

namespace trifold {
namespace {

using testing::TemporaryDirectory;

std::string file_bytes(const std::string& header, const std::string& data) {
  std::string bytes(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(header.size() >> (8 * i));
  return bytes + header + data;
}

SafetensorsView parse(const std::string& bytes) {
  return parse_safetensors(std::as_bytes(std::span(bytes)), "some.safetensors");
}

std::string error_of(const std::string& bytes) {
  try {
    parse(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::input);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("'some.safetensors'"));
    return error.what();
  }
  return "no error";
}

NamedTensor tensor(const std::string& name, const Shape& shape, DType dtype, std::span<const std::byte> data) {
  return {.name = name, .shape = shape, .dtype = dtype, .data = data};
}

TEST(Safetensors, HoldsWhatWasWritten) {
  const TemporaryDirectory directory;
  const std::vector<float> weight{1, 2, 3, 4, 5, 6};
  const std::vector<std::uint8_t> flags{7, 8, 9};
  const std::vector<double> scale{0.5};
  const std::vector<NamedTensor> tensors{
      tensor("flags", {3}, DType::u8, std::as_bytes(std::span(flags))),
      tensor("fc.weight", {2, 3}, DType::f32, std::as_bytes(std::span(weight))),
      tensor("empty", {0, 4}, DType::f32, {}),
      tensor("scale", {}, DType::f64, std::as_bytes(std::span(scale))),
  };
  const auto file = directory / "t.safetensors";
  write_safetensors(file, tensors, {{"note", "a \"quoted\" \xC3\xA9"}});

  const SafetensorsFile read(file);
  EXPECT_EQ(read.metadata(), (SafetensorsMetadata{{"note", "a \"quoted\" \xC3\xA9"}}));
  ASSERT_EQ(read.tensors().size(), 4u);
  EXPECT_EQ(read.tensors()[0].name, "scale") << "widest elements first, so that all are aligned";
  for (const NamedTensor& expected : tensors) {
    const NamedTensor* const got = read.find(expected.name);
    ASSERT_NE(got, nullptr) << expected.name;
    EXPECT_EQ(got->shape, expected.shape);
    EXPECT_EQ(got->dtype, expected.dtype);
    EXPECT_TRUE(std::equal(got->data.begin(), got->data.end(), expected.data.begin(), expected.data.end()));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(got->data.data()) % size_of(got->dtype), 0u);
  }
  EXPECT_EQ(read.find("nothing"), nullptr);
  EXPECT_EQ(read.parts().front().view.header.size() % 8, 0u);
}

TEST(Safetensors, WritesTheBytesOfTheFormat) {
  const std::vector<std::uint8_t> data{1, 2};
  const std::vector<NamedTensor> tensors{tensor("a", {2}, DType::u8, std::as_bytes(std::span(data)))};
  const std::string header = encode_safetensors_header(tensors, {{"k", "v"}});
  const std::string json = R"({"__metadata__":{"k":"v"},"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
  const std::string padding((8 - json.size() % 8) % 8, ' ');
  EXPECT_EQ(header, file_bytes(json + padding, ""));
}

TEST(Safetensors, NoTensorsIsAFileToo) {
  EXPECT_TRUE(parse(file_bytes("{}", "")).tensors.empty());
  EXPECT_TRUE(parse(encode_safetensors_header({}, {})).tensors.empty());
}

TEST(Safetensors, MovedFileKeepsItsViews) {
  const TemporaryDirectory directory;
  const std::vector<float> values{1, 2};
  const std::vector<NamedTensor> tensors{tensor("a", {2}, DType::f32, std::as_bytes(std::span(values)))};
  write_safetensors(directory / "a", tensors, {});
  SafetensorsFile first(directory / "a");
  const SafetensorsFile second(std::move(first));
  EXPECT_EQ(std::memcmp(second.find("a")->data.data(), values.data(), 8), 0);
}

TEST(Safetensors, MissingFileIsSaid) {
  EXPECT_THROW(SafetensorsFile("/nowhere/x.safetensors"), Error);
  EXPECT_THROW(SafetensorsFile("/tmp"), Error);
}

TEST(Safetensors, WriterRefusesWhatItCouldNotRead) {
  const std::vector<std::uint8_t> data{1, 2};
  const auto bytes = std::as_bytes(std::span(data));
  const auto encode = [](const std::vector<NamedTensor>& tensors) { encode_safetensors_header(tensors, {}); };
  EXPECT_THROW(encode({tensor("a", {2}, DType::u8, bytes), tensor("a", {2}, DType::u8, bytes)}), Error);
  EXPECT_THROW(encode({tensor("a", {3}, DType::u8, bytes)}), Error);
  EXPECT_THROW(encode({tensor("__metadata__", {2}, DType::u8, bytes)}), Error);
  EXPECT_THROW(encode({tensor("\xFF", {2}, DType::u8, bytes)}), Error);
}

struct BadFile {
  const char* what;
  std::string bytes;
  const char* message;  // a part of it
};

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

TEST(Safetensors, RefusesEveryWrongFile) {
  const std::string good = entry("F32", "[2]", "[0,8]");
  const std::string eight(8, 'x');
  const std::string sixteen(16, 'x');
  const std::vector<BadFile> files{
      {"empty", "", "too few"},
      {"no length", "1234567", "too few"},
      {"length of ones", std::string(8, '\xFF') + "{}", "claims"},
      {"length beyond the file", file_bytes("{}", "").substr(0, 9), "cut short"},
      {"length beyond any sense", std::string("\x00\xE1\xF5\x05\x00\x00\x00\x00", 8), "only 0 follow"},
      {"empty header", file_bytes("", ""), "begin with"},
      {"header is a list", file_bytes("[]", ""), "begin with"},
      {"leading space", file_bytes(" {}", ""), "begin with"},
      {"not JSON", file_bytes("{\"a\":", ""), "not JSON"},
      {"two objects", file_bytes("{}{}", ""), "not JSON"},
      {"invalid UTF-8", file_bytes("{\"\xFF\":1}", ""), "not JSON"},
      {"number out of range", file_bytes("{\"a\":1e999}", ""), "not JSON"},
      {"deep nesting", file_bytes("{\"a\":" + std::string(100'000, '[') + "", ""), "deeper"},
      {"duplicate tensor", file_bytes("{\"a\":" + good + ",\"a\":" + good + "}", eight), "two entries named 'a'"},
      {"duplicate field", file_bytes(R"({"a":{"dtype":"U8","dtype":"U8","shape":[8],"data_offsets":[0,8]}})", eight),
       "two entries named 'dtype'"},
      {"tensor is a number", file_bytes(R"({"a":1})", ""), "exactly"},
      {"missing dtype", file_bytes(R"({"a":{"shape":[2],"data_offsets":[0,8]}})", eight), "exactly"},
      {"extra field", file_bytes(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8],"x":1}})", eight), "exactly"},
      {"unknown dtype", file_bytes("{\"a\":" + entry("Q7", "[2]", "[0,8]") + "}", eight), "'Q7'"},
      {"dtype is a number", file_bytes(R"({"a":{"dtype":1,"shape":[8],"data_offsets":[0,8]}})", eight), "dtype"},
      {"shape is a number", file_bytes("{\"a\":" + entry("F32", "2", "[0,8]") + "}", eight), "not a list"},
      {"negative extent", file_bytes("{\"a\":" + entry("F32", "[-2]", "[0,8]") + "}", eight), "non-negative"},
      {"fractional extent", file_bytes("{\"a\":" + entry("F32", "[2.0]", "[0,8]") + "}", eight), "non-negative"},
      {"extent of 2^63", file_bytes("{\"a\":" + entry("F32", "[9223372036854775808]", "[0,8]") + "}", eight),
       "non-negative"},
      {"six dims", file_bytes("{\"a\":" + entry("F32", "[1,1,1,1,1,2]", "[0,8]") + "}", eight), "6 dims"},
      {"elements overflow to 0", file_bytes("{\"a\":" + entry("F32", "[4294967296,4294967296]", "[0,0]") + "}", ""),
       "too large"},
      {"bytes overflow to 0", file_bytes("{\"a\":" + entry("F32", "[4611686018427387904]", "[0,0]") + "}", ""),
       "too large"},
      {"overflow before a zero", file_bytes("{\"a\":" + entry("F32", "[4294967296,4294967296,0]", "[0,0]") + "}", ""),
       "too large"},
      {"one offset", file_bytes("{\"a\":" + entry("F32", "[2]", "[8]") + "}", eight), "two non-negative"},
      {"negative offset", file_bytes("{\"a\":" + entry("F32", "[2]", "[-8,0]") + "}", eight), "two non-negative"},
      {"offsets swapped", file_bytes("{\"a\":" + entry("F32", "[2]", "[8,0]") + "}", eight), "lies at"},
      {"beyond the data", file_bytes("{\"a\":" + entry("F32", "[4]", "[0,16]") + "}", eight), "cut short"},
      {"huge offsets",
       file_bytes("{\"a\":" + entry("F32", "[2]", "[18446744073709551608,18446744073709551615]") + "}", eight),
       "lies at"},
      {"shape and bytes differ", file_bytes("{\"a\":" + entry("F32", "[3]", "[0,8]") + "}", eight), "needs 12 bytes"},
      {"overlap", file_bytes("{\"a\":" + good + ",\"b\":" + entry("F32", "[2]", "[4,12]") + "}", eight + "1234"),
       "overlaps"},
      {"same place twice", file_bytes("{\"a\":" + good + ",\"b\":" + good + "}", eight), "overlaps"},
      {"gap", file_bytes("{\"a\":" + good + ",\"b\":" + entry("U8", "[4]", "[12,16]") + "}", sixteen), "gap of 4"},
      {"gap at the front", file_bytes("{\"a\":" + entry("F32", "[2]", "[8,16]") + "}", sixteen), "gap of 8"},
      {"bytes after the end", file_bytes("{\"a\":" + good + "}", sixteen), "8 bytes follow"},
      {"metadata is a list", file_bytes(R"({"__metadata__":[]})", ""), "not an object"},
      {"metadata value is a number", file_bytes(R"({"__metadata__":{"k":1}})", ""), "'k' is not a string"},
  };
  for (const BadFile& file : files) {
    EXPECT_THAT(error_of(file.bytes), ::testing::HasSubstr(file.message)) << file.what;
  }
  EXPECT_EQ(error_of(file_bytes("{\"a\":" + good + "}", eight)), "no error") << "the pattern of the cases above";
}

TEST(Safetensors, PythonReadsOurFiles) {
  if (!testing::python_imports("safetensors.numpy")) GTEST_SKIP() << "Python's safetensors and numpy are not installed";
  const TemporaryDirectory directory;
  const std::vector<float> weight{1, 2, 3, 4, 5, 6};
  const std::vector<std::uint16_t> halves{0x3C00, 0xC000};
  const std::vector<std::int32_t> steps{-3};
  const std::vector<NamedTensor> tensors{
      tensor("fc.weight", {2, 3}, DType::f32, std::as_bytes(std::span(weight))),
      tensor("half", {2}, DType::f16, std::as_bytes(std::span(halves))),
      tensor("steps", {}, DType::i32, std::as_bytes(std::span(steps))),
      tensor("none", {0, 2}, DType::f64, {}),
  };
  const auto file = directory / "t.safetensors";
  write_safetensors(file, tensors, {{"note", "hello"}});
  const auto result = testing::run_python("path = '" + file.string() + R"('
from safetensors import safe_open
with safe_open(path, framework='numpy') as f:
    assert f.metadata() == {'note': 'hello'}, f.metadata()
    assert sorted(f.keys()) == ['fc.weight', 'half', 'none', 'steps'], f.keys()
    assert f.get_tensor('fc.weight').tolist() == [[1, 2, 3], [4, 5, 6]]
    assert f.get_tensor('half').tolist() == [1, -2] and f.get_tensor('half').dtype == 'float16'
    assert f.get_tensor('steps').tolist() == -3 and f.get_tensor('steps').shape == ()
    assert f.get_tensor('none').shape == (0, 2)
)");
  EXPECT_EQ(result.exit_status, 0) << result.output;
}

TEST(Safetensors, WeReadPythonsFiles) {
  if (!testing::python_imports("safetensors.numpy")) GTEST_SKIP() << "Python's safetensors and numpy are not installed";
  const TemporaryDirectory directory;
  const auto file = directory / "t.safetensors";
  const auto result = testing::run_python("path = '" + file.string() + R"('
import numpy
from safetensors.numpy import save_file
save_file({'b': numpy.arange(6, dtype='float32').reshape(2, 3), 'a': numpy.array([1, 2, 3], dtype='uint8')}, path,
          metadata={'k': 'v'})
)");
  ASSERT_EQ(result.exit_status, 0) << result.output;
  const SafetensorsFile read(file);
  EXPECT_EQ(read.metadata().at("k"), "v");
  ASSERT_NE(read.find("b"), nullptr);
  EXPECT_EQ(read.find("b")->shape, (Shape{2, 3}));
  float last = 0;
  std::memcpy(&last, read.find("b")->data.data() + 20, 4);
  EXPECT_EQ(last, 5);
  EXPECT_EQ(read.find("a")->dtype, DType::u8);
}

}  // namespace
}  // namespace trifold
