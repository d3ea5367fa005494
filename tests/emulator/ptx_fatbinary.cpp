// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include "ptx_fatbinary.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace emulator::ptx {

namespace {
/// Before all entries.
struct Header {
  std::uint32_t magic;
  std::uint16_t version, header_bytes;
  std::uint64_t bytes;  // of all entries
};
/// Before each entry; more follows.
struct Entry {
  std::uint16_t kind, version;
  std::uint32_t header_bytes;
  std::uint64_t bytes;
};
constexpr std::uint32_t magic = 0xBA55ED50;
constexpr std::uint16_t kind_ptx = 1;

template <class T>
T at(const std::byte* place) {
  T made;
  std::memcpy(&made, place, sizeof made);
  return made;
}
}  // namespace

std::vector<std::string> ptx_texts(const void* fatbin) {
  const auto* const begin = static_cast<const std::byte*>(fatbin);
  const auto header = at<Header>(begin);
  if (header.magic != magic) throw std::runtime_error("PTX: this is no fat binary");
  std::vector<std::string> texts;
  const std::byte* const end = begin + header.header_bytes + header.bytes;
  for (const std::byte* place = begin + header.header_bytes; place < end;) {
    const auto entry = at<Entry>(place);
    const auto* const content = reinterpret_cast<const char*>(place + entry.header_bytes);
    if (entry.kind == kind_ptx) {
      std::string text(content, entry.bytes);
      text.erase(text.find_last_not_of('\0') + 1);
      if (text.find(".version") == std::string::npos) {
        throw std::runtime_error("PTX: it was compressed; compile with nvcc --no-compress");
      }
      texts.push_back(std::move(text));
    }
    place += entry.header_bytes + entry.bytes;
  }
  return texts;
}

}  // namespace emulator::ptx
