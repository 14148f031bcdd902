package io.pulsaroperator.conformance;

/** An operation that gave no answer within the limit of its request; the Pulsar client's own limits come first. */
final class OperationTimeoutException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    OperationTimeoutException(String message) {
        super(message);
    }
}
