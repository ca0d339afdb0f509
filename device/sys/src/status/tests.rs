//! The table, row by row.

use super::*;

/// Number, name, retry: the contract's table.
const EXPECTED: [(i32, &str, Retry); 42] = [
    (0, "SUCCESS", Retry::No),
    (1, "UNINITIALIZED", Retry::No),
    (2, "INVALID_ARGUMENT", Retry::No),
    (3, "OUT_OF_HOST_MEMORY", Retry::No),
    (4, "TIMEOUT", Retry::Unknown),
    (6, "INVALID_OPERATION", Retry::No),
    (7, "NOT_IMPLEMENTED", Retry::No),
    (8, "INTERNAL_FAILURE", Retry::ProcessOnce),
    (13, "OPEN_FILE_FAILURE", Retry::No),
    (14, "FILE_OPERATION_FAILURE", Retry::No),
    (15, "UNSUPPORTED_CONTROL_PROTOCOL_VERSION", Retry::No),
    (16, "UNSUPPORTED_FW_VERSION", Retry::No),
    (18, "FW_CONTROL_FAILURE", Retry::Process),
    (26, "INVALID_HEF", Retry::No),
    (28, "INTERRUPTED_BY_SIGNAL", Retry::Process),
    (36, "DRIVER_OPERATION_FAILED", Retry::Process),
    (61, "NOT_FOUND", Retry::No),
    (62, "COMMUNICATION_CLOSED", Retry::ProcessAfterWait),
    (63, "STREAM_ABORT", Retry::Process),
    (64, "DRIVER_NOT_INSTALLED", Retry::No),
    (71, "OUT_OF_FW_MEMORY", Retry::No),
    (73, "DEVICE_IN_USE", Retry::Wait),
    (74, "OUT_OF_PHYSICAL_DEVICES", Retry::WaitIfPresent),
    (75, "INVALID_DEVICE_ARCHITECTURE", Retry::No),
    (76, "INVALID_DRIVER_VERSION", Retry::No),
    (77, "RPC_FAILED", Retry::No),
    (79, "NOT_SUPPORTED", Retry::No),
    (81, "OUT_OF_HOST_CMA_MEMORY", Retry::ProcessAfterWait),
    (82, "QUEUE_IS_FULL", Retry::Wait),
    (85, "DRIVER_INVALID_RESPONSE", Retry::Process),
    (86, "DRIVER_INVALID_IOCTL", Retry::No),
    (87, "DRIVER_TIMEOUT", Retry::Process),
    (88, "DRIVER_INTERRUPTED", Retry::Process),
    (89, "CONNECTION_REFUSED", Retry::Wait),
    (90, "DRIVER_WAIT_CANCELED", Retry::Process),
    (91, "HEF_FILE_CORRUPTED", Retry::No),
    (92, "HEF_NOT_SUPPORTED", Retry::No),
    (93, "HEF_NOT_COMPATIBLE_WITH_DEVICE", Retry::No),
    (94, "INVALID_HEF_USE", Retry::No),
    (95, "OPERATION_ABORTED", Retry::No),
    (96, "DEVICE_NOT_CONNECTED", Retry::Wait),
    (97, "DEVICE_TEMPORARILY_UNAVAILABLE", Retry::Wait),
];

#[test]
fn every_row_has_name_cause_and_retry() {
    assert_eq!(ROWS.len(), EXPECTED.len());
    for (number, name, retry) in EXPECTED {
        let status = Status::new(number);
        assert_eq!((status.number(), status.name(), status.retry()), (number, Some(name), retry));
        assert_eq!(status.to_string(), format!("{name} ({number})"));
        assert_eq!(status.cause().is_some(), number != 0, "{name}");
    }
}

#[test]
fn rows_are_in_order_and_none_is_there_twice() {
    assert!(ROWS.windows(2).all(|pair| pair[0].number < pair[1].number));
}

#[test]
fn a_status_outside_of_the_table_has_its_name_and_no_advice() {
    let status = Status::new(5);
    assert_eq!(status.to_string(), "INSUFFICIENT_BUFFER (5)");
    assert_eq!((status.cause(), status.retry()), (None, Retry::No));
}

#[test]
fn an_unknown_number_is_printed_as_such() {
    for number in [98, 12345, -1, i32::MAX, i32::MIN] {
        let status = Status::new(number);
        assert_eq!(status.to_string(), format!("unknown status {number}"));
        assert_eq!((status.name(), status.cause(), status.retry()), (None, None, Retry::No));
    }
}
