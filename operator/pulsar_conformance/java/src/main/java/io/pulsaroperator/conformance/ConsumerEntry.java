package io.pulsaroperator.conformance;

import java.util.concurrent.CompletableFuture;
import org.apache.pulsar.client.api.Consumer;

/** A consumer and its session. */
record ConsumerEntry(Consumer<byte[]> consumer, Session session) implements Session.Member {
    @Override
    public CompletableFuture<Void> close() {
        return consumer.closeAsync();
    }
}
