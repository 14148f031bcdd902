package io.pulsaroperator.conformance;

import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.pulsar.client.api.ClientBuilder;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;

/** A client, the builder that can make another one like it, and those others that some producers have to themselves. */
record Session(PulsarClient client, ClientBuilder builder, Set<PulsarClient> own) {
    /** What belongs to a session and is gone when the session is closed. */
    interface Member {
        Session session();

        /** Tell the broker that it is gone. */
        CompletableFuture<Void> close();
    }

    Session(PulsarClient client, ClientBuilder builder) {
        this(client, builder, ConcurrentHashMap.newKeySet());
    }

    /** Another client with the same configuration, closed with this session. */
    PulsarClient twin() throws PulsarClientException {
        PulsarClient twin = builder.clone().build();
        own.add(twin);
        return twin;
    }

    /** Close one of the other clients. */
    CompletableFuture<Void> drop(PulsarClient twin) {
        return own.remove(twin) ? twin.closeAsync() : CompletableFuture.completedFuture(null);
    }

    /** Close the client and with it everything that it made. */
    CompletableFuture<Void> close() {
        CompletableFuture<?>[] twins = own.stream().map(this::drop).toArray(CompletableFuture[]::new);
        return CompletableFuture.allOf(client.closeAsync(), CompletableFuture.allOf(twins));
    }
}
