-- Puts spans to the changes that they have made or been woken by, and answers which spans were there before.
--
-- KEYS[1] HASH of changes: the spans of each, separated by spaces
-- KEYS[2] the HASH that was KEYS[1] until it was full
-- ARGV[1] how many changes make the hash full
-- ARGV[2] how many spans a change keeps
-- ARGV[3] how long the hashes stay after the last call, in seconds
-- ARGV[4..] a change and a span, in turns
--
-- Answer: for each pair, the spans of the change. A client may send the script twice; the second time the span itself
-- is among them, once.

local answer = {}
for at = 4, #ARGV, 2 do
  local change, span = ARGV[at], ARGV[at + 1]
  local spans = redis.call('HGET', KEYS[1], change) or redis.call('HGET', KEYS[2], change) or ''
  table.insert(answer, spans)
  local _, count = string.gsub(spans, '%S+', '')
  if count < tonumber(ARGV[2]) and not string.find(spans, span, 1, true) then
    if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[1]) then
      redis.call('RENAME', KEYS[1], KEYS[2])
    end
    redis.call('HSET', KEYS[1], change, spans == '' and span or spans .. ' ' .. span)
  end
end
for _, key in ipairs(KEYS) do
  redis.call('EXPIRE', key, ARGV[3])
end
return answer
