package io.pulsaroperator.conformance;

/** A request that this program cannot do: an unknown operation, handle or argument. */
final class RequestException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    RequestException(String message) {
        super(message);
    }
}
