// A value, or the status that stands in its place.
#ifndef FIDELITY_STANDIN_EXPECTED_HPP
#define FIDELITY_STANDIN_EXPECTED_HPP

#include "hailo/hailort.h"

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace hailort {

class hailort_error : public std::runtime_error {
public:
    hailort_error(hailo_status status, const std::string &what) : std::runtime_error(what), m_status(status) {}

    hailo_status status() const { return m_status; }

private:
    hailo_status m_status;
};

class Unexpected final {
public:
    explicit Unexpected(hailo_status status) : m_status(status) {}

    hailo_status m_status;
};

inline Unexpected make_unexpected(hailo_status status)
{
    return Unexpected(status);
}

template <typename T>
class Expected final {
public:
    Expected(Unexpected unexpected) : m_status(unexpected.m_status) {}
    Expected(T &&value) : m_value(std::move(value)), m_status(HAILO_SUCCESS) {}
    Expected(Expected &&other) = default;
    explicit Expected(const Expected &other) = default;
    Expected &operator=(const Expected &) = delete;
    Expected &operator=(Expected &&) = delete;

    bool has_value() const { return HAILO_SUCCESS == m_status; }
    explicit operator bool() const { return has_value(); }
    hailo_status status() const { return m_status; }
    T &value() & { return m_value.value(); }
    const T &value() const & { return m_value.value(); }
    T &operator*() & { return value(); }
    const T &operator*() const & { return value(); }
    T *operator->() { return &value(); }
    const T *operator->() const { return &value(); }

    T release()
    {
        T value = std::move(m_value.value());
        m_value.reset();
        m_status = HAILO_UNINITIALIZED;
        return value;
    }

private:
    std::optional<T> m_value;
    hailo_status m_status;
};

} // namespace hailort

#endif
