package io.pulsaroperator.conformance;

import java.util.concurrent.CompletableFuture;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;

/** A producer, the lane of its requests, its session, and the client of its own when it has one (else null). */
record ProducerEntry(Producer<byte[]> producer, Lane lane, Session session, PulsarClient ownClient)
        implements Session.Member {
    @Override
    public CompletableFuture<Void> close() {
        return producer.closeAsync();
    }
}
