// Owns the vocabulary of a reduce: element types, operators, codecs and schedules, by numbers that never change (they ride in frames).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace prime {

enum class DataType : std::uint8_t {
  F32 = 0,
  F64 = 1,
  F16 = 2,
  BF16 = 3,
  I8 = 4,
  I16 = 5,
  I32 = 6,
  I64 = 7,
  U8 = 8,
  U16 = 9,
  U32 = 10,
  U64 = 11
};
inline constexpr std::uint8_t DATA_TYPES = 12;

enum class ReduceOperator : std::uint8_t { Sum = 0, Average = 1, Product = 2, Minimum = 3, Maximum = 4 };
inline constexpr std::uint8_t REDUCE_OPERATORS = 5;

/// How f32 values travel. None: as they are, in any type. All others: f32 only, sum or average only, accumulated in f32.
enum class Codec : std::uint8_t {
  None = 0,
  F16 = 1,
  BF16 = 2,
  Int8MinMax = 3,     ///< 8 bits between the least and the greatest value of a block
  Int8ZeroPoint = 4,  ///< 8 bits, scale and integer zero point of a block: zero stays exact
  Int8Block = 5,      ///< 8 bits, symmetric, one scale for each 256 values
  Int4Block = 6,      ///< 4 bits, symmetric, one scale for each 32 values
  E3M0 = 7,           ///< 4 bits: a sign and a power of two, one scale for each 256 values (Streaming DiLoCo, arXiv:2501.18512)
};
inline constexpr std::uint8_t CODECS = 8;

enum class Schedule : std::uint8_t {
  /// Whole for one small chunk, else direct.
  Automatic = 0,
  /// Rank r owns segment r: all contributors send it there, the owner combines in rank order and sends the result to all. Two hops.
  Direct = 1,
  /// The sum of segment r grows along the ring and ends at r, the result goes around it. 2(N−1) hops, but each rank talks to two
  /// others only (bandwidth-optimal ring: Patarasuk and Yuan, J. Parallel Distrib. Comput. 69, 2009).
  Ring = 2,
  /// Everyone sends everything to everyone and combines in rank order. One hop: for 32 KiB at most.
  Whole = 3,
};
inline constexpr std::uint8_t SCHEDULES = 4;

constexpr std::size_t element_bytes(DataType type) {
  switch (type) {
    case DataType::I8:
    case DataType::U8: return 1;
    case DataType::F16:
    case DataType::BF16:
    case DataType::I16:
    case DataType::U16: return 2;
    case DataType::F32:
    case DataType::I32:
    case DataType::U32: return 4;
    case DataType::F64:
    case DataType::I64:
    case DataType::U64: return 8;
  }
  return 0;
}

constexpr std::string_view to_string(DataType type) {
  switch (type) {
    case DataType::F32: return "f32";
    case DataType::F64: return "f64";
    case DataType::F16: return "f16";
    case DataType::BF16: return "bf16";
    case DataType::I8: return "i8";
    case DataType::I16: return "i16";
    case DataType::I32: return "i32";
    case DataType::I64: return "i64";
    case DataType::U8: return "u8";
    case DataType::U16: return "u16";
    case DataType::U32: return "u32";
    case DataType::U64: return "u64";
  }
  return "?";
}

constexpr std::string_view to_string(ReduceOperator op) {
  switch (op) {
    case ReduceOperator::Sum: return "sum";
    case ReduceOperator::Average: return "avg";
    case ReduceOperator::Product: return "prod";
    case ReduceOperator::Minimum: return "min";
    case ReduceOperator::Maximum: return "max";
  }
  return "?";
}

constexpr std::string_view to_string(Schedule schedule) {
  switch (schedule) {
    case Schedule::Automatic: return "auto";
    case Schedule::Direct: return "direct";
    case Schedule::Ring: return "ring";
    case Schedule::Whole: return "whole";
  }
  return "?";
}

constexpr std::string_view to_string(Codec codec) {
  switch (codec) {
    case Codec::None: return "none";
    case Codec::F16: return "f16";
    case Codec::BF16: return "bf16";
    case Codec::Int8MinMax: return "int8-minmax";
    case Codec::Int8ZeroPoint: return "int8-zeropoint";
    case Codec::Int8Block: return "int8";
    case Codec::Int4Block: return "int4";
    case Codec::E3M0: return "e3m0";
  }
  return "?";
}

}  // namespace prime
