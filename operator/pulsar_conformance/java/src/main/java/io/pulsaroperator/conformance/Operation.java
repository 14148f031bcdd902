package io.pulsaroperator.conformance;

import java.util.concurrent.CompletableFuture;

/** One operation of the protocol: what it answers is any value that Jackson can write, or null. */
@FunctionalInterface
interface Operation {
    /** Begin the operation; it may also wait, since it runs on a thread of its own. */
    CompletableFuture<?> run(Request request) throws Exception;

    /** Wrap a call that answers at once. */
    static Operation now(Now call) {
        return request -> CompletableFuture.completedFuture(call.run(request));
    }

    /** A call that answers at once. */
    @FunctionalInterface
    interface Now {
        Object run(Request request) throws Exception;
    }
}
