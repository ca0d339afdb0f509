// What is behind hailort::Hef.
#ifndef FIDELITY_STANDIN_HEF_IMPL_HPP
#define FIDELITY_STANDIN_HEF_IMPL_HPP

#include "hailo/hef.hpp"
#include "hef_file.hpp"

namespace hailort {

class Hef::Impl {
public:
    standin::HefFile file;
    // Of a HEF in memory: its bytes, which are the caller's.
    MemoryView memory;
};

} // namespace hailort

#endif
