-- Begins the removal of a queue: from now on no gateway starts a key of it, and no key waits without a job.
--
-- KEYS[1] queue HASH
-- KEYS[2] in-flight ZSET
-- KEYS[3] pause-ends ZSET
-- KEYS[4] backlog ZSET
-- KEYS[5..] the other keys that a first write to the queue may leave. Recovery writes the hash when the queue is in
--   order, and gateways add, pause and put runs back before that.
-- ARGV[1] the owner whose queue is removed, '' for none: another may have taken the queue since it was read
--
-- Answer: {the latest end of a run on record, the end of the pause that recovery has set, each 0 if there is none, 1 when
-- the queue has any data, else 0}; or nil when the queue has another owner. A client may send the script
-- twice; the second time the hash has neither an incarnation nor an owner, as in a queue that was never in order.

local incarnation, owner = unpack(redis.call('HMGET', KEYS[1], 'incarnation', 'owner'))
if (incarnation or owner) and (owner or '') ~= ARGV[1] then
  return nil
end
local last = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2] or '0'
local pause = redis.call('ZSCORE', KEYS[3], 'recovery') or '0'
if redis.call('EXISTS', unpack(KEYS)) == 0 then
  return { last, pause, 0 }
end
-- Removals first: a Redis that is full refuses a script whose first write takes memory.
redis.call('HDEL', KEYS[1], 'incarnation', 'owner')
redis.call('UNLINK', KEYS[4])
-- The hash goes last. Without an incarnation it says that a removal has begun (`QueueRecord.state`).
redis.call('HSETNX', KEYS[1], 'runId', '')
return { last, pause, 1 }
