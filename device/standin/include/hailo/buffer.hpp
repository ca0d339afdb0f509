// Views of memory.
#ifndef FIDELITY_STANDIN_BUFFER_HPP
#define FIDELITY_STANDIN_BUFFER_HPP

#include "hailo/expected.hpp"

#include <cstddef>
#include <cstdint>

namespace hailort {

class HAILORTAPI MemoryView final {
public:
    MemoryView() noexcept = default;
    MemoryView(void *data, size_t size) noexcept : m_data(data), m_size(size) {}

    static const MemoryView create_const(const void *data, size_t size) noexcept
    {
        return MemoryView(const_cast<void *>(data), size);
    }

    uint8_t *data() noexcept { return static_cast<uint8_t *>(m_data); }
    const uint8_t *data() const noexcept { return static_cast<const uint8_t *>(m_data); }
    size_t size() const noexcept { return m_size; }

private:
    void *m_data = nullptr;
    size_t m_size = 0;
};

} // namespace hailort

#endif
