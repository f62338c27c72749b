// Config: conversion of the options of a layer, optimizer or loss to and from JSON by one function:
//
//   void DenseLayer::Fields(Config& config) {
//     config("units", options_.units)("activation", options_.activation);
//   }
//
// The same function writes the options and reads them; reading rejects a wrong type and an unknown
// key with an error that names the key. Keys are Keras's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

#include "penstock/nn/layers.h"

namespace penstock::nn {

namespace internal {
class SharedLayerReader;
class SharedLayerWriter;
}  // namespace internal

class Config {
 public:
  // A config that writes into `json`, an object.
  static Config Writer(nlohmann::ordered_json& json,
                       internal::SharedLayerWriter* shared = nullptr) {
    Config config(&json, nullptr);
    config.shared_writer_ = shared;
    return config;
  }
  // A config that reads from `json`; missing fields keep their values. Call Finish at the end.
  static Config Reader(const nlohmann::ordered_json& json, const CustomLayers* custom = nullptr,
                       internal::SharedLayerReader* shared = nullptr) {
    Config config(nullptr, &json);
    config.custom_ = custom;
    config.shared_reader_ = shared;
    return config;
  }
  // A config that changes no field and appends the layers among them to `layers`: those of a
  // network, or of an option.
  static Config Lister(std::vector<Layer>& layers);

  Config& operator()(const char* key, bool& field);
  Config& operator()(const char* key, int64_t& field);
  Config& operator()(const char* key, double& field);
  Config& operator()(const char* key, std::string& field);
  Config& operator()(const char* key, std::vector<int64_t>& field);
  Config& operator()(const char* key, std::vector<double>& field);
  Config& operator()(const char* key, std::vector<std::string>& field);
  Config& operator()(const char* key, std::optional<double>& field);  // null when not given
  Config& operator()(const char* key, std::optional<int64_t>& field);
  Config& operator()(const char* key, std::optional<std::vector<int64_t>>& field);
  template <int N>
  Config& operator()(const char* key, Size<N>& field);  // a number or a list of N
  template <int N>
  Config& operator()(const char* key, OptionalSize<N>& field);  // null when not given
  template <int N>
  Config& operator()(const char* key, Ends<N>& field);            // [[low, high], ...], or less
  Config& operator()(const char* key, Range& field);              // a number or [low, high]
  Config& operator()(const char* key, OptionalRange& field);      // null when not given
  Config& operator()(const char* key, UnitRange& field);          // a number or [low, high]
  Config& operator()(const char* key, OptionalUnitRange& field);  // null when not given
  Config& operator()(const char* key, AxisList& field);           // a number or a list
  Config& operator()(const char* key, PerChannel& field);         // a number or a list
  Config& operator()(const char* key, Layer& field);              // {"class_name", "config"}
  Config& operator()(const char* key, Network& field);            // as Network::ToJson

  // Fields for which null means empty, or 0. A list of numbers may be given as a single number, or
  // as nested lists in row-major order; in a shape, null means any extent, which is -1.
  Config& Optional(const char* key, std::vector<double>& field);
  Config& Optional(const char* key, std::vector<int64_t>& field);
  Config& Optional(const char* key, int64_t& field);
  Config& Optional(const char* key, PerChannel& field);

  // A field that is written only if it is given: Keras's layers of this class do not know its key.
  Config& IfGiven(const char* key, std::optional<double>& field);

  // A flag that is written only if it is false, for the same reason.
  Config& IfFalse(const char* key, bool& field);

  // A string that is written and read as null if it has the value `null`.
  Config& OrNull(const char* key, std::string& field, const char* null);

  // The error of the first wrong field or of an unknown key, if any. Keys that describe the object
  // rather than its options ("name", "trainable", "dtype") and keys with null values are ignored.
  absl::Status Finish() const;

 private:
  Config(nlohmann::ordered_json* out, const nlohmann::ordered_json* in) : out_(out), in_(in) {}
  template <typename T>
  Config& Field(const char* key, T& field, const char* expected);
  // The value to read, or nullptr if there is none.
  const nlohmann::ordered_json* Take(const char* key);
  void Wrong(const char* key, const char* expected);
  void Wrong(const char* key, const absl::Status& status);

  nlohmann::ordered_json* out_;
  const nlohmann::ordered_json* in_;
  // Custom layers, for layers within layers.
  const CustomLayers* custom_ = nullptr;
  internal::SharedLayerWriter* shared_writer_ = nullptr;
  internal::SharedLayerReader* shared_reader_ = nullptr;
  std::vector<Layer>* layers_ = nullptr;  // of Lister
  std::vector<std::string> known_;
  absl::Status status_;
};

}  // namespace penstock::nn
