// Owns SharedList: a list whose copies share one allocation until one of them is changed.
//
// A view and its contributions go to every one of N members. Copied as plain vectors that is N² members for each outer step.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace prime {

/// Reads like a const vector. Copies may be read from several threads; one copy is changed by its owner alone.
template <class T>
class SharedList {
 public:
  using value_type = T;
  using const_iterator = typename std::vector<T>::const_iterator;

  SharedList() = default;
  SharedList(std::vector<T> list) : list_(std::make_shared<std::vector<T>>(std::move(list))) {}  // NOLINT(google-explicit-constructor)
  SharedList(std::initializer_list<T> list) : SharedList(std::vector<T>(list)) {}

  [[nodiscard]] const std::vector<T>& list() const {
    static const std::vector<T> none;
    return list_ ? *list_ : none;
  }
  operator const std::vector<T>&() const { return list(); }  // NOLINT(google-explicit-constructor)
  /// What is changed here is this copy alone. It is made anew each time: a count of owners that has fallen to one does not prove that
  /// the others' last reads have happened before.
  std::vector<T>& edit() {
    list_ = std::make_shared<std::vector<T>>(list());
    return *list_;
  }
  /// Copies all; build a long list as a vector.
  void push_back(T item) { edit().push_back(std::move(item)); }

  [[nodiscard]] std::size_t size() const { return list().size(); }
  [[nodiscard]] bool empty() const { return list().empty(); }
  [[nodiscard]] const_iterator begin() const { return list().begin(); }
  [[nodiscard]] const_iterator end() const { return list().end(); }
  [[nodiscard]] const T& front() const { return list().front(); }
  [[nodiscard]] const T& operator[](std::size_t i) const { return list()[i]; }

  friend bool operator==(const SharedList& a, const SharedList& b) { return a.list_ == b.list_ || a.list() == b.list(); }

 private:
  std::shared_ptr<std::vector<T>> list_;
};

/// On the wire it is a vector: what an inspector reads from, or writes into.
template <class Inspector, class T>
auto& on_wire(SharedList<T>& x) {
  if constexpr (Inspector::reads_state) return x.list();
  else return x.edit();
}

}  // namespace prime
