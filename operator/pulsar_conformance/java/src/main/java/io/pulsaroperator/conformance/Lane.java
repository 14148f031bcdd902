package io.pulsaroperator.conformance;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;

/** Runs the requests of one producer in the order of their lines, so that asynchronous sends keep their order. */
final class Lane {
    private CompletableFuture<Void> tail = CompletableFuture.completedFuture(null);

    /** Run a task after all earlier ones of this lane have begun and returned. The task must not throw. */
    synchronized void run(Runnable task, Executor executor) {
        tail = tail.thenRunAsync(task, executor);
    }

    /** Done when every task given so far has returned. */
    synchronized CompletableFuture<Void> reached() {
        return tail;
    }
}
