-- Replaces the rules of a key's related objects, while its run is in flight, or while it has none.
--
-- ARGV[1] key
-- ARGV[2] run; empty: the key must have none in flight
-- ARGV[3] how many kinds the rules of all keys may have
-- then    rules, each as JSON in its canonical form; none removes all
--
-- Answer: {how much it cost: a member of the index that has changed counts as one, and so does a kind on record if all
-- were counted; a member that was only looked at as a quarter; 0, or how many kinds the rules would have}. Nothing was
-- done when another run is in flight, or with too many kinds.

local key = ARGV[1]
local related, related_index = KEYS[1] .. ':related', KEYS[1] .. ':related-index'
if (redis.call('HGET', KEYS[1] .. ':key:' .. key, 'run') or '') ~= ARGV[2] then return { 0, 0 } end
local before = redis.call('HGET', related, key)
local after = table.concat(ARGV, '\n', 4)
if (before or '') == after then return { 0, 0 } end

local LOOKED_AT = 0.25
local known, left, is_new, cost = {}, {}, false, 0

-- include distinct-kinds

-- The kinds that no key has named, each once.
local new_kinds, is_counted = 0, {}
for at = 4, #ARGV do
  local rule = cjson.decode(ARGV[at])
  local kind = rule.apiVersion .. '/' .. rule.kind
  if not is_counted[kind] then
    is_counted[kind] = true
    local from, to = '[' .. kind .. '\n', '(' .. kind .. '\11'
    if #redis.call('ZRANGEBYLEX', related_index, from, to, 'LIMIT', 0, 1) == 0 then new_kinds = new_kinds + 1 end
  end
end
if new_kinds > 0 then
  local most = tonumber(ARGV[3])
  cost = #distinct_kinds(related_index, most)
  if cost + new_kinds > most then return { cost, cost + new_kinds } end
end

-- The members of the index for one rule: one for each name, or one without a name.
local function each_member(text, visit)
  local rule = cjson.decode(text)
  local start = rule.apiVersion .. '/' .. rule.kind .. '\n' .. (rule.namespace or '') .. '\n'
  local names = rule.names or { '' }
  for _, name in ipairs(names) do visit(start .. name .. '\n' .. key) end
  cost = cost + LOOKED_AT * #names
end

for text in string.gmatch(before or '', '[^\n]+') do
  known[text] = true
  each_member(text, function(member) left[member] = true end)
end
for at = 4, #ARGV do
  if not known[ARGV[at]] then is_new = true end
  each_member(ARGV[at], function(member)
    if left[member] then
      left[member] = nil
    else
      cost = cost + redis.call('ZADD', related_index, 0, member)
    end
  end)
end
for member in pairs(left) do cost = cost + redis.call('ZREM', related_index, member) end
if after == '' then redis.call('HDEL', related, key) else redis.call('HSET', related, key, after) end
-- A change between what the run has read and its new rule has not woken the key: the finish of the run queues it again.
if is_new and ARGV[2] ~= '' then
  local record = KEYS[1] .. ':key:' .. key
  redis.call('HSET', record, 'dirty', '1')
  redis.call('HSETNX', record, 'reasons', '{"type":"requeue","message":"new related objects"}')
end
return { math.ceil(cost), 0 }
