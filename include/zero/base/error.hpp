// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The exceptions of the library. Includes the standard library only.
#pragma once

#include <stdexcept>
#include <string>

namespace zero {

/// The base of every exception that this library throws.
///
/// The text of each says what was called, what was expected, what came, on which rank, unit and
/// schedule position where these are known, and what to do.
class Error : public std::runtime_error {
 public:
  /// An error with this text.
  explicit Error(const std::string& what) : std::runtime_error(what) {}
};

/// The caller broke a documented condition: a wrong size, name, order or argument.
class ContractError : public Error {
 public:
  /// An error with this text.
  explicit ContractError(const std::string& what) : Error(what) {}
};

/// A gradient is not finite though the loss scale is as small as it may be.
class OverflowError : public Error {
 public:
  /// An error with this text.
  explicit OverflowError(const std::string& what) : Error(what) {}
};

/// Memory or a stream of a device failed.
class DeviceError : public Error {
 public:
  /// An error with this text.
  explicit DeviceError(const std::string& what) : Error(what) {}
};

/// A call of CUDA failed.
class CudaError : public DeviceError {
 public:
  /// An error with this text and this cudaError_t.
  CudaError(const std::string& what, int code) : DeviceError(what), code_(code) {}
  /// The cudaError_t.
  int code() const { return code_; }

 private:
  int code_;
};

/// Ranks disagree, a rank is missing, or the transport failed.
class CommunicatorError : public Error {
 public:
  /// An error with this text.
  explicit CommunicatorError(const std::string& what) : Error(what) {}
};

/// Something that was waited for did not come within the time limit. A late rank is the usual
/// cause, so that this is a kind of CommunicatorError.
class TimeoutError : public CommunicatorError {
 public:
  /// An error with this text.
  explicit TimeoutError(const std::string& what) : CommunicatorError(what) {}
};

/// A checkpoint cannot be written or read: a file system failed, or a file is damaged, hostile or
/// of something else.
class CheckpointError : public Error {
 public:
  /// An error with this text.
  explicit CheckpointError(const std::string& what) : Error(what) {}
};

}  // namespace zero
