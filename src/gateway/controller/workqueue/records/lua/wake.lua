-- Makes keys ready whose time has come, each only if its time has not changed since it was read. The time stays in its
-- set, moved ahead, until the start of the key removes it. If the calling gateway ends before the start, the key becomes
-- ready again at that time. (Removing it at once lost 48 of 500 requeues.)
--
-- KEYS[1] timers or debounced ZSET
-- KEYS[2] prefix of the queue
-- ARGV[1] new score
-- then    two each: key, score as it was read
--
-- Answer: the places of the keys that became ready, from 0. A key that waits already is not in the answer, and a key that
-- runs becomes ready at its finish.

local ready = {}
local records, queued = KEYS[2] .. ':key:', KEYS[2] .. ':queued'
for at = 2, #ARGV, 2 do
  local key = ARGV[at]
  local score = redis.call('ZSCORE', KEYS[1], key)
  if score and tonumber(score) == tonumber(ARGV[at + 1]) then
    local record = records .. key
    -- A record that cannot be read must not stop the other keys. The start of its key reports it.
    local run = redis.pcall('HGET', record, 'run')
    if type(run) == 'string' then
      redis.call('HSET', record, 'dirty', '1')
      redis.call('ZREM', KEYS[1], key)
    else
      redis.call('ZADD', KEYS[1], ARGV[1], key)
      redis.pcall('HSETNX', record, 'queuedAt', math.floor(score))
      if redis.call('ZADD', queued, 'NX', math.floor(score), key) == 1 then ready[#ready + 1] = (at - 2) / 2 end
    end
  end
end
return ready
