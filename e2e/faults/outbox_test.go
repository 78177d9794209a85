package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/outbox"
)

// shop is a program with a database of its own: each order is a row of its own table and a row of its outbox, both in
// one transaction.
type shop struct {
	t        *testing.T
	database string
	pool     *pgxpool.Pool
	server   func() string
	key      string
	number   atomic.Int64
}

// order is the payload of a job.
type order struct {
	N   int64  `json:"n"`
	Key string `json:"key"`
}

func (order) JobType() string { return "order.placed" }

func newShop(t *testing.T, c *stack.Cluster) *shop {
	t.Helper()
	var turn atomic.Int64
	s := &shop{t: t, database: stack.NewDatabase(t), key: c.NewTenant(t, "shop").Key}
	s.server = func() string { return c.Gateways[int(turn.Add(1))%len(c.Gateways)].URL }
	if code := s.command("migrate").Wait(t, time.Minute); code != 0 {
		t.Fatalf("migrate: exit code %d", code)
	}
	var err error
	if s.pool, err = pgxpool.New(t.Context(), s.database); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.pool.Close)
	if _, err := s.pool.Exec(t.Context(), `CREATE TABLE orders (n bigint PRIMARY KEY, key text NOT NULL)`); err != nil {
		t.Fatal(err)
	}
	return s
}

// command starts `forgequeue relay` with arguments.
func (s *shop) command(args ...string) *stack.Process {
	s.t.Helper()
	command := exec.CommandContext(context.WithoutCancel(s.t.Context()), stack.Binary(s.t), append([]string{"relay"}, args...)...)
	command.Env = append(os.Environ(), "FORGEQUEUE_URL="+s.server(), "FORGEQUEUE_API_KEY="+s.key, "FORGEQUEUE_RELAY_DATABASE_URL="+s.database)
	return stack.StartCommand(s.t, command)
}

// relay starts a relay whose batches are soon another one's when it is killed.
func (s *shop) relay() *stack.Process {
	return s.command("--batch", "40", "--senders", "2", "--poll", "100ms", "--lease", "3s")
}

// place makes a transaction of a few orders, which commits or not, and says how many rows it has committed.
func (s *shop) place(ctx context.Context, key string) (committed int64) {
	tx, err := s.pool.Begin(ctx)
	if err != nil {
		s.t.Errorf("begin: %v", err)
		return 0
	}
	defer func() { _ = tx.Rollback(ctx) }()
	rows := 1 + rand.N(int64(4))
	for range rows {
		one := order{s.number.Add(1), key}
		if err := s.insert(ctx, tx, one); err != nil {
			s.t.Errorf("order %d: %v", one.N, err)
			return 0
		}
	}
	if rand.N(4) == 0 {
		return 0 // something else went wrong in the shop
	}
	if err := tx.Commit(ctx); err != nil {
		s.t.Errorf("commit: %v", err)
		return 0
	}
	return rows
}

func (s *shop) insert(ctx context.Context, tx pgx.Tx, one order) error {
	if _, err := tx.Exec(ctx, `INSERT INTO orders VALUES ($1, $2)`, one.N, one.Key); err != nil {
		return err
	}
	if one.Key == "" {
		_, err := tx.Exec(ctx, `SELECT forgequeue_enqueue('order.placed', jsonb_build_object('n', $1::bigint, 'key', ''), queue => 'orders')`, one.N)
		return err
	}
	_, err := outbox.Submit(ctx, tx, one, outbox.With(client.JobOptions{Queue: "orders"}), outbox.InOrder(one.Key))
	return err
}

// Writers commit and roll back while relays, core and gateway are killed at random moments. Each committed row is
// exactly one job, and those of a key were stored in their order.
func TestOutboxRowsUnderKills(t *testing.T) {
	furtherFault(t, "TestCoreKilledUnderLoad")
	t.Parallel()
	kills, least := lane(10, 200), int64(lane(1500, 50_000))
	c := stack.NewCluster(t, stack.ClusterOptions{})
	s := newShop(t, c)
	relays := []*stack.Process{s.relay(), s.relay(), s.relay()}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var committed atomic.Int64
	var killed atomic.Int64
	var writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() {
			for n := 0; ctx.Err() == nil && (killed.Load() < int64(kills) || committed.Load() < least); n++ {
				key := ""
				if n%3 == 0 { // the transactions of one key follow each other
					key = fmt.Sprintf("account-%d-%d", i, n%5)
				}
				committed.Add(s.place(context.WithoutCancel(ctx), key))
				for committed.Load()*int64(kills) > least*(1+killed.Load()) && killed.Load() < int64(kills) {
					pace(ctx, 20*time.Millisecond) // spreads the rows over the kills
				}
			}
		})
	}
	for i := range kills {
		pace(t.Context(), moment(100*time.Millisecond, 700*time.Millisecond))
		switch i % 5 {
		case 3:
			c.Cores[0].Kill()
			c.Cores[0].Start()
		case 4:
			c.Gateways[0].Kill()
			c.Gateways[0].Start()
		}
		victim := rand.N(len(relays))
		relays[victim].Kill()
		relays[victim] = s.relay()
		killed.Add(1)
	}
	c.Gateways[0].AwaitReady()
	writers.Wait()
	stack.Eventually(t, 3*time.Minute, "the outbox is empty", func() bool {
		left := stack.Query[int](t.Context(), t, s.database, `SELECT (SELECT count(*) FROM forgequeue_outbox)::integer + (SELECT count(*) FROM forgequeue_outbox_batches)::integer`)
		return left[0] == 0
	})
	for _, one := range relays {
		if code := one.Stop(t); code != 0 {
			t.Errorf("a relay ends with %d\n%s", code, one.Output())
		}
	}
	s.check(c)
	t.Logf("%d rows, %d transactions' rows rolled back, %d kills", committed.Load(), s.number.Load()-committed.Load(), kills)
}

// check compares the orders with the jobs.
func (s *shop) check(c *stack.Cluster) {
	s.t.Helper()
	orders := stack.Query[int64](s.t.Context(), s.t, s.database, `SELECT n FROM orders ORDER BY n`)
	// One after the other: the time of the transaction says in which order.
	jobs := stack.Query[string](s.t.Context(), s.t, c.DatabaseURL, `SELECT payload::text FROM jobs ORDER BY created_at, id`)
	stored, last := map[int64]int{}, map[string]int64{}
	for _, text := range jobs {
		var one order
		if err := json.Unmarshal([]byte(text), &one); err != nil {
			s.t.Fatal(err)
		}
		stored[one.N]++
		if one.Key != "" {
			if one.N < last[one.Key] {
				s.t.Errorf("order %d of %s was stored after order %d", one.N, one.Key, last[one.Key])
			}
			last[one.Key] = one.N
		}
	}
	var missing, twice, surplus []string
	for _, n := range orders {
		switch stored[n] {
		case 0:
			missing = append(missing, fmt.Sprint(n))
		case 1:
		default:
			twice = append(twice, fmt.Sprint(n))
		}
	}
	for n := range stored {
		if _, found := slices.BinarySearch(orders, n); !found {
			surplus = append(surplus, fmt.Sprint(n))
		}
	}
	if len(missing)+len(twice)+len(surplus) > 0 || len(jobs) != len(orders) || len(last) == 0 {
		s.t.Errorf("%d orders, %d jobs\nmissing: %s\ntwice: %s\nof no committed order: %s", len(orders), len(jobs),
			strings.Join(missing, " "), strings.Join(twice, " "), strings.Join(surplus, " "))
	}
}
