// A physical device.
#ifndef FIDELITY_STANDIN_DEVICE_HPP
#define FIDELITY_STANDIN_DEVICE_HPP

#include "hailo/expected.hpp"

#include <string>
#include <vector>

namespace hailort {

class HAILORTAPI Device {
public:
    static Expected<std::vector<std::string>> scan();

    virtual ~Device() = default;
    virtual Expected<hailo_device_identity_t> identify() = 0;
    virtual const char *get_dev_id() const = 0;
};

} // namespace hailort

#endif
