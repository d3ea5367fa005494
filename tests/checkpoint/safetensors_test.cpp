// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>
#include <zero/checkpoint/safetensors.hpp>

BOOST_AUTO_TEST_SUITE(safetensors_test)

using zero::CheckpointError;
using zero::SafetensorsHeader;
using zero::StoredTensor;

/// Reads a whole file, header first, as a reader of files does.
SafetensorsHeader read(const std::string& file) {
  char first[8] = {};
  std::memcpy(first, file.data(), std::min<std::size_t>(8, file.size()));
  const std::uint64_t bytes =
      zero::safetensors_text_bytes(std::span<const char, 8>(first), file.size(), "a file");
  return zero::parse_safetensors(std::string_view(file).substr(8, bytes), file.size(), "a file");
}
std::string with_length(const std::string& text, std::uint64_t length, std::size_t data) {
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + text + std::string(data, 'x');
}
std::string file_of(const std::string& text, std::size_t data) {
  return with_length(text, text.size(), data);
}

BOOST_AUTO_TEST_CASE(what_is_written_is_read) {
  std::vector<StoredTensor> tensors{{"w", "F32", {2, 3}, 0, 24},
                                    {"\xE2\x82\xAC \"\\\n\x01", "BF16", {}, 0, 2},
                                    {"empty", "I64", {4, 0}, 0, 0},
                                    {"bytes", "U8", {5}, 0, 5}};
  const std::string header = zero::write_safetensors(tensors, {{"format", "pt"}, {"a", "\t"}});
  BOOST_TEST(header.size() % 8 == 0);
  const SafetensorsHeader back = read(header + std::string(31, 'x'));
  BOOST_TEST(back.data_begin == header.size());
  BOOST_TEST(back.metadata.at("a") == "\t");
  BOOST_REQUIRE(back.tensors.size() == tensors.size());
  for (const StoredTensor& tensor : tensors) {
    bool found = false;
    for (const StoredTensor& other : back.tensors) {
      found = found || (other.name == tensor.name && other.type == tensor.type &&
                        other.shape == tensor.shape && other.begin == tensor.begin &&
                        other.bytes == tensor.bytes);
    }
    BOOST_TEST(found, tensor.name);
  }
  std::vector<StoredTensor> twice{{"w", "U8", {1}, 0, 1}, {"w", "U8", {1}, 0, 1}};
  BOOST_CHECK_THROW(zero::write_safetensors(twice), zero::ContractError);
  std::vector<StoredTensor> reserved{{"__metadata__", "U8", {1}, 0, 1}};
  BOOST_CHECK_THROW(zero::write_safetensors(reserved), zero::ContractError);
  BOOST_TEST(read(zero::write_safetensors({})).tensors.empty());
}

BOOST_AUTO_TEST_CASE(other_writers_spellings_are_read) {
  const SafetensorsHeader header =
      read(file_of("{ \"b\" :\t{\"data_offsets\":[4,8],\"shape\":[1],\"dtype\":\"F32\"},\r\n"
                   "\"\\u0061\\ud83d\\uDE00\\/\":{\"dtype\":\"I32\",\"shape\":[],"
                   "\"data_offsets\":[0,4]}}   ",
                   8));
  BOOST_REQUIRE(header.tensors.size() == 2);
  BOOST_TEST(header.tensors[0].name == "a\xF0\x9F\x98\x80/");
  BOOST_TEST(header.tensors[1].name == "b");
}

const std::string good = "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";

/// {"a": an entry} with 8 bytes of data.
std::string entry(const std::string& fields) { return "{\"a\":{" + fields + "}}"; }

std::vector<std::string> hostile_files() {
  std::vector<std::string> files;
  // Lengths.
  for (std::size_t bytes = 0; bytes < 8; ++bytes) files.push_back(std::string(bytes, '\0'));
  for (const std::uint64_t length :
       {0ULL, 1ULL, 55ULL, good.size() - 1ULL, good.size() + 1ULL, good.size() + 9ULL,
        100'000'001ULL, 1ULL << 31, 1ULL << 32, 1ULL << 62, 1ULL << 63, ~0ULL, ~0ULL - 7}) {
    files.push_back(with_length(good, length, 8));
  }
  for (std::size_t data = 0; data < 20; ++data) {
    if (data != 8) files.push_back(file_of(good, data));
  }
  // Text that is cut off anywhere, or has another byte somewhere.
  for (std::size_t i = 0; i < good.size(); ++i) {
    files.push_back(file_of(good.substr(0, i), 8));
    for (const char c : {'\0', '\xFF', '\x80'}) {
      std::string text = good;
      text[i] = c;
      files.push_back(file_of(text, 8));
    }
  }
  const std::string offsets = "\"data_offsets\":[0,8]";
  for (const char* shape : {"[3]",
                            "[1]",
                            "[0]",
                            "[]",
                            "[2,2]",
                            "[-2]",
                            "[2.0]",
                            "[2e0]",
                            "[02]",
                            "[\"2\"]",
                            "[[2]]",
                            "2",
                            "null",
                            "[2,]",
                            "[,2]",
                            "[18446744073709551615]",
                            "[18446744073709551616]",
                            "[4294967296,4294967296,2]",
                            "[9223372036854775808,2]",
                            "[4611686018427387906]",
                            "[99999999999999999999999999]",
                            "[2 2]",
                            "[2",
                            "{}",
                            "[true]",
                            "[0,18446744073709551615]",
                            "[+2]",
                            "[ ]",
                            "[0x2]"}) {
    files.push_back(
        file_of(entry("\"dtype\":\"F32\",\"shape\":" + std::string(shape) + "," + offsets), 8));
  }
  for (const char* type : {"\"F33\"", "\"f32\"", "\"\"", "\"F32 \"", "F32", "32", "null", "[]",
                           "\"F64\"", "\"BF16\"", "\"U8\"", "\"F32\\u0000\"", "\"BOOL\""}) {
    files.push_back(
        file_of(entry("\"dtype\":" + std::string(type) + ",\"shape\":[2]," + offsets), 8));
  }
  for (const char* range :
       {"[0]", "[]", "[0,8,8]", "[8,0]", "[0,7]", "[0,9]", "[1,9]", "[4,12]", "[0,16]", "[-8,0]",
        "[18446744073709551608,0]", "[18446744073709551608,18446744073709551616]", "8", "{}",
        "[0,\"8\"]", "[0,8.0]", "[0,null]", "[00,8]",
        "[9223372036854775800,9223372036854775808]"}) {
    files.push_back(file_of(
        entry("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":" + std::string(range)), 8));
  }
  for (const char* fields :
       {"\"dtype\":\"F32\",\"shape\":[2]", "\"dtype\":\"F32\",\"data_offsets\":[0,8]",
        "\"shape\":[2],\"data_offsets\":[0,8]", "",
        "\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]",
        "\"dtype\":\"F32\",\"shape\":[2],\"shape\":[2],\"data_offsets\":[0,8]",
        "\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"data_offsets\":[0,8]",
        "\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"more\":1"}) {
    files.push_back(file_of(entry(fields), 8));
  }
  // Two tensors.
  const auto two = [](const std::string& a, const std::string& b, const std::string& second) {
    return "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" + a + "},\"" + second +
           "\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" + b + "}}";
  };
  for (const auto& [a, b] : {std::pair{"[0,4]", "[0,4]"},
                             {"[0,4]", "[3,7]"},
                             {"[0,4]", "[5,9]"},
                             {"[4,8]", "[4,8]"},
                             {"[1,5]", "[4,8]"},
                             {"[2,6]", "[6,10]"}}) {
    files.push_back(file_of(two(a, b, "b"), 8));
  }
  files.push_back(file_of(two("[0,4]", "[4,8]", "a"), 8));
  files.push_back(file_of(two("[0,4]", "[4,8]", "\\u0061"), 8));
  // Other JSON, and what is not JSON.
  for (const char* text : {"",
                           " ",
                           "[]",
                           "null",
                           "\"a\"",
                           "0",
                           "{",
                           "}",
                           "{}}",
                           "{},",
                           "{}{}",
                           "{\"a\"}",
                           "{\"a\":}",
                           "{\"a\":null}",
                           "{\"a\":[]}",
                           "{\"a\":1}",
                           "{a:{}}",
                           "{'a':{}}",
                           "{,}",
                           "//\n{}",
                           " {}",
                           "\xEF\xBB\xBF{}",
                           "{\"__metadata__\":[]}",
                           "{\"__metadata__\":{\"a\":1}}",
                           "{\"__metadata__\":{\"a\":{}}}",
                           "{\"__metadata__\":{\"a\":\"1\",\"a\":\"1\"}}",
                           "{\"__metadata__\":{},\"__metadata__\":{}}",
                           "{\"__metadata__\":{\"a\":\"\\x\"}}",
                           "{\"__metadata__\":{\"a\":\"\\ud800\"}}",
                           "{\"__metadata__\":{\"a\":\"\\udc00\"}}",
                           "{\"__metadata__\":{\"a\":\"\\ud800\\ud800\"}}",
                           "{\"__metadata__\":{\"a\":\"\\u00g0\"}}",
                           "{\"__metadata__\":{\"a\":\"\n\"}}",
                           "{\"__metadata__\":{\"a\":\"\\\"}}",
                           "{\"__metadata__\":{\"a\":\"\xC0\x80\"}}",
                           "{\"__metadata__\":{\"a\":\"\xED\xA0\x80\"}}",
                           "{\"__metadata__\":{\"a\":\"\xF4\x90\x80\x80\"}}",
                           "{\"__metadata__\":{\"a\":\"\xE2\x82\"}}",
                           "{\"__metadata__\":{\"a\":\"\xF0\x82\x82\xAC\"}}"}) {
    files.push_back(file_of(text, 0));
  }
  for (const char open : {'{', '['}) {
    std::string deep = "{\"a\":";
    for (int i = 0; i < 200'000; ++i) deep += open == '[' ? "[" : "{\"a\":";
    files.push_back(file_of(deep, 0));
  }
  return files;
}

BOOST_AUTO_TEST_CASE(hostile_files_are_refused) {
  BOOST_TEST(read(file_of(good, 8)).tensors.size() == 1);
  BOOST_TEST(read(file_of("{}", 0)).tensors.empty());
  const std::vector<std::string> files = hostile_files();
  BOOST_TEST(files.size() > 300);
  std::size_t refused = 0;
  for (const std::string& file : files) {
    try {
      read(file);
      BOOST_TEST(false, "read: " << file.substr(0, 200));
    } catch (const CheckpointError& error) {
      refused += std::string(error.what()).find("a file is damaged or hostile") == 0 ? 1 : 0;
      BOOST_TEST(std::string(error.what()).size() < 500);
    }
  }
  BOOST_TEST(refused == files.size());
}

BOOST_AUTO_TEST_CASE(mutated_files_are_refused_or_add_up) {
  std::vector<StoredTensor> tensors{
      {"w", "F32", {2, 3}, 0, 24}, {"x", "BF16", {3}, 0, 6}, {"y", "U8", {1, 2}, 0, 2}};
  const std::string whole = zero::write_safetensors(tensors) + std::string(32, 'x');
  std::mt19937 random(7);
  std::size_t refused = 0, read_well = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string file = whole;
    for (std::size_t n = random() % 3 + 1; n > 0; --n) {
      const std::size_t at = random() % (file.size() - 32);
      const char pool[] = "{}[]\",:0129\\u\xFF\xC3\xA9 F8e-.";
      switch (random() % 4) {
        case 0: file[at] = pool[random() % (sizeof pool - 1)]; break;
        case 1: file[at] = static_cast<char>(file[at] ^ (1 << (random() % 8))); break;
        case 2: std::swap(file[at], file[random() % file.size()]); break;
        default:  // digits change where they matter
          for (std::size_t i = at; i < file.size(); ++i) {
            if (file[i] < '0' || file[i] > '9') continue;
            file[i] = static_cast<char>('0' + random() % 10);
            break;
          }
      }
    }
    try {
      const SafetensorsHeader header = read(file);
      std::uint64_t end = 0;
      bool adds_up = true;
      for (const StoredTensor& tensor : header.tensors) {
        adds_up = adds_up && tensor.begin == end;
        end = tensor.begin + tensor.bytes;
      }
      BOOST_TEST((adds_up && header.data_begin + end == file.size()), file);
      ++read_well;
    } catch (const CheckpointError&) { ++refused; }
  }
  BOOST_TEST(refused > 10'000);
  BOOST_TEST(read_well > 10);
}

BOOST_AUTO_TEST_SUITE_END()
