import time; t=time.time()
import torch, warnings, copy
exec(open("/tmp/swaps-x/c.py").read().split("for ranks in")[0])
many=adapters([4]*4)
def swap(i):
    if i: many.unmerge_adapter()
    many.set_adapter(f"a{i}"); many.merge_adapter()
class Calls: pass
c=torch.compile(many,backend="eager")
inner=many.base_model.model
ci=torch.compile(inner,backend="eager")
torch._logging.set_logs(recompiles=True)
from helpers import start
start("30")
for f in (c,ci):
  for i in range(3):
    swap(i) if i or f is ci else many.merge_adapter()
    with torch.no_grad(): f(input_ids=ids)
  print("======")
