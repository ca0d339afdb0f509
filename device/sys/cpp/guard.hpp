// What all entry points share: no exception leaves them, and a failure says where it was.
#ifndef FIDELITY_HAILORT_GUARD_HPP
#define FIDELITY_HAILORT_GUARD_HPP

#include "shim.h"

#include "hailo/hailort.h"
#include "hailo/expected.hpp"

#include <cstdio>
#include <exception>
#include <new>
#include <string>

namespace fidelity {

// How a step of an entry point failed.
struct Failure {
    int32_t status;
    fid_step step;
    std::string detail;
};

inline int32_t report(fid_error *error, int32_t status, fid_step step, const char *detail) noexcept
{
    if (error != nullptr) {
        error->status = status;
        error->step = step;
        std::snprintf(error->detail, sizeof(error->detail), "%s", detail);
    }
    return status;
}

// Runs the body of an entry point. What libhailort lets through is caught here: a malformed HEF makes protobuf throw inside of it.
template <typename Body>
int32_t guarded(fid_error *error, Body &&body) noexcept
{
    try {
        body();
        return HAILO_SUCCESS;
    } catch (const Failure &failure) {
        return report(error, failure.status, failure.step, failure.detail.c_str());
    } catch (const std::bad_alloc &) {
        return report(error, HAILO_OUT_OF_HOST_MEMORY, FID_STEP_EXCEPTION, "no memory");
    } catch (const hailort::hailort_error &thrown) {
        return report(error, thrown.status(), FID_STEP_EXCEPTION, thrown.what());
    } catch (const std::exception &thrown) {
        return report(error, HAILO_INTERNAL_FAILURE, FID_STEP_EXCEPTION, thrown.what());
    } catch (...) {
        return report(error, HAILO_INTERNAL_FAILURE, FID_STEP_EXCEPTION, "an exception of unknown type");
    }
}

inline void check(hailo_status status, fid_step step, const std::string &detail)
{
    if (HAILO_SUCCESS != status) {
        throw Failure{status, step, detail};
    }
}

// The value, or a failure of this step.
template <typename T>
T take(hailort::Expected<T> expected, fid_step step, const std::string &detail)
{
    check(expected.status(), step, detail);
    return expected.release();
}

inline void require(bool holds, const char *detail)
{
    if (!holds) {
        throw Failure{HAILO_INVALID_ARGUMENT, FID_STEP_ARGS, detail};
    }
}

// Copies text into a field of fixed size, cut where it does not fit.
template <size_t Size>
void copy_text(char (&field)[Size], const std::string &text)
{
    std::snprintf(field, Size, "%s", text.c_str());
}

} // namespace fidelity

#endif
