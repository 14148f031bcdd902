package io.pulsaroperator.conformance;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import java.util.function.Function;

/** The objects that the other side knows by name. */
final class Handles {
    private static final long CLOSE_LIMIT_SECONDS = 5;
    private final Map<String, Object> objects = new ConcurrentHashMap<>();
    private final Set<CompletableFuture<?>> background = ConcurrentHashMap.newKeySet();
    private final AtomicLong last = new AtomicLong();

    /** Keep an object under a new name. */
    String add(String prefix, Object object) {
        String name = prefix + last.incrementAndGet();
        objects.put(name, object);
        return name;
    }

    /** The object with this name; RequestException when there is none of that kind, as after its close. */
    <T> T get(String name, Class<T> kind) {
        Object object = objects.get(name);
        if (!kind.isInstance(object)) {
            throw new RequestException("\"" + name + "\" cannot be used: it or its client is closed");
        }
        return kind.cast(object);
    }

    /** Forget and give back the object with this name. */
    <T> T remove(String name, Class<T> kind) {
        T object = get(name, kind);
        objects.remove(name);
        return object;
    }

    /** The lane of the producer with this name, if that is what the name stands for. */
    Optional<Lane> lane(String name) {
        return objects.get(name) instanceof ProducerEntry entry ? Optional.of(entry.lane()) : Optional.empty();
    }

    /** Done when every request so far has begun that runs in a lane. */
    CompletableFuture<Void> lanesReached() {
        return CompletableFuture.allOf(objects.values().stream()
                .filter(ProducerEntry.class::isInstance)
                .map(entry -> ((ProducerEntry) entry).lane().reached())
                .toArray(CompletableFuture[]::new));
    }

    /** Forget and give back what belongs to a session. */
    List<Session.Member> removeMembers(Session session) {
        List<Session.Member> members = objects.values().stream()
                .filter(object -> object instanceof Session.Member member && member.session() == session)
                .map(Session.Member.class::cast)
                .toList();
        objects.values().removeAll(members);
        return members;
    }

    /** Let something end that nobody waits for until the process ends. */
    void inBackground(CompletableFuture<?> ending) {
        background.add(ending);
        ending.whenComplete((value, error) -> background.remove(ending));
    }

    /**
     * A future of the handle's name, made once the object is there.
     *
     * <p>When the result was cancelled or timed out meanwhile, the object is closed instead: nobody knows its name.
     */
    <T> CompletableFuture<Map<String, String>> whenMade(
            CompletableFuture<T> making, Function<T, Object> wrap, String prefix, Consumer<T> discard) {
        CompletableFuture<Map<String, String>> result = new CompletableFuture<>();
        making.whenComplete((made, error) -> {
            if (error != null) {
                result.completeExceptionally(error);
                return;
            }
            String name = add(prefix, wrap.apply(made));
            if (!result.complete(Map.of("handle", name))) {
                objects.remove(name);
                discard.accept(made);
            }
        });
        return result;
    }

    /** Close every client, which closes what it made; gives up after a few seconds. */
    void closeClients() {
        objects.values().stream()
                .filter(Session.class::isInstance)
                .forEach(session -> inBackground(((Session) session).close()));
        CompletableFuture<?>[] closing = background.toArray(CompletableFuture[]::new);
        try {
            CompletableFuture.allOf(closing).get(CLOSE_LIMIT_SECONDS, TimeUnit.SECONDS);
        } catch (ExecutionException | TimeoutException error) {
            System.err.println("closing the clients: " + error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }
}
