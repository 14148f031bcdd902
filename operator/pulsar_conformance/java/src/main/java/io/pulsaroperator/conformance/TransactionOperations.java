package io.pulsaroperator.conformance;

import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.transaction.Transaction;

/** The transaction.* operations. A transaction keeps its name after its end, so that its state can be read. */
final class TransactionOperations implements Operations {
    private final Handles handles;

    TransactionOperations(Handles handles) {
        this.handles = handles;
    }

    @Override
    public Map<String, Operation> byName() {
        return Map.of(
                "transaction.begin", this::begin,
                "transaction.commit", request -> transaction(request).commit(),
                "transaction.abort", request -> transaction(request).abort(),
                "transaction.state",
                Operation.now(request -> Map.of("state", transaction(request).getState().name())),
                "transaction.id", Operation.now(request -> Map.of("id", transaction(request).getTxnID().toString())));
    }

    private CompletableFuture<?> begin(Request request) throws Exception {
        Session session = handles.get(request.text("client"), Session.class);
        CompletableFuture<Transaction> making = session.client().newTransaction()
                .withTransactionTimeout(request.number("timeout_ms"), TimeUnit.MILLISECONDS)
                .build();
        return handles.whenMade(making, transaction -> transaction, "transaction", Transaction::abort);
    }

    private Transaction transaction(Request request) {
        return handles.get(request.text("handle"), Transaction.class);
    }
}
