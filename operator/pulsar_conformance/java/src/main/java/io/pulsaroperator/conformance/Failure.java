package io.pulsaroperator.conformance;

import java.util.Map;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;

/** Errors as the protocol tells them: the simple class name of the innermost Pulsar exception and its message. */
final class Failure {
    private Failure() {}

    static Map<String, String> of(Throwable error) {
        Throwable cause = error;
        while ((cause instanceof CompletionException || cause instanceof ExecutionException)
                && cause.getCause() != null) {
            cause = cause.getCause();
        }
        String type = cause.getClass().getSimpleName();
        return Map.of("type", type, "message", String.valueOf(cause.getMessage()));
    }
}
