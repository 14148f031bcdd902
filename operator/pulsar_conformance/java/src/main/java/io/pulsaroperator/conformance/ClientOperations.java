package io.pulsaroperator.conformance;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.pulsar.client.api.AuthenticationFactory;
import org.apache.pulsar.client.api.ClientBuilder;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.impl.conf.ClientConfigurationData;

/** client.create and client.close. */
final class ClientOperations implements Operations {
    private static final int OPERATION_TIMEOUT_MS = 20_000;
    private final Handles handles;

    ClientOperations(Handles handles) {
        this.handles = handles;
    }

    @Override
    public Map<String, Operation> byName() {
        return Map.of("client.create", this::create, "client.close", this::close);
    }

    private CompletableFuture<?> create(Request request) {
        Map<String, Object> defaults = Map.of(
                "operationTimeoutMs", OPERATION_TIMEOUT_MS, "lookupTimeoutMs", OPERATION_TIMEOUT_MS,
                "statsIntervalSeconds", 0);
        ClientBuilder builder = PulsarClient.builder()
                .loadConf(Conf.checked(request.map("conf"), defaults, ClientConfigurationData.class))
                .serviceUrl(request.text("service_url"));
        request.optionalText("token").ifPresent(token -> builder.authentication(AuthenticationFactory.token(token)));
        request.optionalText("token_file").ifPresent(file -> builder.authentication(
                AuthenticationFactory.token(() -> tokenIn(Path.of(file)))));
        CompletableFuture<PulsarClient> making = new CompletableFuture<>();
        Thread maker = new Thread(() -> make(builder, making), "client-maker");
        maker.setDaemon(true);
        maker.start();
        CompletableFuture<?> result =
                handles.whenMade(making, client -> new Session(client, builder), "client", PulsarClient::closeAsync);
        // With transactions, build waits without end for a coordinator; when interrupted, it cleans up.
        result.whenComplete((handle, error) -> {
            if (error != null) {
                maker.interrupt();
            }
        });
        return result;
    }

    /** The token of a file, which is read whenever the client connects: it may hold another one by then. */
    private static String tokenIn(Path file) {
        try {
            return Files.readString(file).strip();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static void make(ClientBuilder builder, CompletableFuture<PulsarClient> making) {
        try {
            making.complete(builder.build());
        } catch (PulsarClientException | RuntimeException error) {
            making.completeExceptionally(error);
        }
    }

    private CompletableFuture<?> close(Request request) {
        Session session = handles.remove(request.text("handle"), Session.class);
        CompletableFuture<?>[] closing = handles.removeMembers(session).stream()
                .map(Session.Member::close)
                .toArray(CompletableFuture[]::new);
        // The client's threads take two seconds to end, which no test needs to wait for.
        return CompletableFuture.allOf(closing).whenComplete((done, error) -> handles.inBackground(session.close()));
    }
}
