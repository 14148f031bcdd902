package io.pulsaroperator.conformance;

import com.fasterxml.jackson.core.JsonProcessingException;
import java.io.PrintStream;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** Takes request lines, runs each on a thread of its own, and writes one reply a request. */
final class Server {
    private final PrintStream replies;
    private final Handles handles;
    private final Map<String, Operation> operations = new HashMap<>();
    private final Map<Long, CompletableFuture<?>> waiting = new ConcurrentHashMap<>();
    private final ExecutorService threads = Executors.newCachedThreadPool(task -> daemon(task, "request"));
    private final ScheduledThreadPoolExecutor timers =
            new ScheduledThreadPoolExecutor(1, task -> daemon(task, "request-limit"));

    Server(PrintStream replies, Handles handles, List<Operations> groups) {
        this.replies = replies;
        this.handles = handles;
        timers.setRemoveOnCancelPolicy(true);
        groups.forEach(group -> operations.putAll(group.byName()));
        operations.put("ping", Operation.now(request -> Map.of("now_ms", System.currentTimeMillis())));
        operations.put("cancel", Operation.now(this::cancel));
    }

    /** The first line: tells the other side that requests are read from now on. */
    void hello() {
        write(Map.of("id", 0, "ok", Map.of("java", Runtime.version().toString())));
    }

    /** Begin one request; never waits. */
    void accept(String line) {
        Request request;
        try {
            request = Request.parse(line);
        } catch (RequestException error) {
            write(Map.of("id", -1, "error", Failure.of(error)));
            return;
        }
        CompletableFuture<Object> result = new CompletableFuture<>();
        waiting.put(request.id(), result);
        result.whenComplete((value, error) -> {
            waiting.remove(request.id());
            reply(request, value, error);
        });
        expireAfter(request, result);
        schedule(request, result);
    }

    private void expireAfter(Request request, CompletableFuture<Object> result) {
        long limit = request.limitMs();
        String text = request.op() + " gave no answer within " + limit + " ms";
        Future<?> timer = timers.schedule(
                () -> result.completeExceptionally(new OperationTimeoutException(text)), limit, TimeUnit.MILLISECONDS);
        result.whenComplete((value, error) -> timer.cancel(false));
    }

    private void schedule(Request request, CompletableFuture<Object> result) {
        Runnable task = () -> begin(request, result);
        Optional<Lane> lane = request.optionalText("handle").flatMap(handles::lane);
        if (lane.isPresent()) {
            lane.get().run(task, threads);
        } else if (request.op().startsWith("transaction.")) {
            // A commit comes after the sends whose lines came before it.
            handles.lanesReached().thenRunAsync(task, threads);
        } else {
            threads.execute(task);
        }
    }

    private void begin(Request request, CompletableFuture<Object> result) {
        if (result.isDone()) {
            return;
        }
        Operation operation = operations.get(request.op());
        try {
            if (operation == null) {
                throw new RequestException("there is no operation \"" + request.op() + "\"");
            }
            CompletableFuture<?> answer = operation.run(request);
            answer.whenComplete((value, error) -> {
                if (error != null) {
                    result.completeExceptionally(error);
                } else {
                    result.complete(value);
                }
            });
            // A request that ran out of time or was cancelled ends the operation's own future too.
            result.whenComplete((value, error) -> answer.cancel(false));
        } catch (Exception error) {
            result.completeExceptionally(error);
        }
    }

    private Object cancel(Request request) {
        CompletableFuture<?> target = waiting.get(request.number("target"));
        boolean cancelled = target != null && target.completeExceptionally(new CancellationException("cancelled"));
        return Map.of("cancelled", cancelled);
    }

    private void reply(Request request, Object value, Throwable error) {
        if (error == null) {
            write(Map.of("id", request.id(), "ok", value == null ? Map.of() : value));
        } else {
            write(Map.of("id", request.id(), "error", Failure.of(error)));
        }
    }

    private static Thread daemon(Runnable task, String name) {
        Thread thread = new Thread(task, name);
        thread.setDaemon(true);
        return thread;
    }

    private void write(Map<String, ?> reply) {
        String line;
        try {
            line = Request.JSON.writeValueAsString(reply);
        } catch (JsonProcessingException error) {
            throw new IllegalStateException("a reply that JSON cannot hold", error);
        }
        synchronized (replies) {
            replies.println(line);
            replies.flush();
        }
    }
}
